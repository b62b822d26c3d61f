"""The process around a computation: files, messages, progress on a terminal, interruption, versions."""
