"""How far an estimate would move if the measurement were repeated: error bars, and the noise that they rest on."""
