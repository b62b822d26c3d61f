// Numbers of the page: base64 to typed arrays, and what they are between two rows.

function unpacked(field) {
  if (field.values) {
    const values = field.values.map((x) => (x === null ? NaN : Number(x)));
    return { width: field.width, rows: 1, data: Float64Array.from(values) };
  }
  const bytes = Uint8Array.from(atob(field.base64), (c) => c.charCodeAt(0));
  const data = field.double ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
  return { width: field.width, rows: data.length / field.width, data };
}

// The last row at or before time t, and how far on the way to the next one t is. Of two rows at one time, as at an
// impact, it is the second.
function placeIn(times, t) {
  let low = 0;
  let high = times.length - 1;
  if (t >= times[high]) return { row: high, part: 0 };
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle;
    else high = middle;
  }
  const step = times[low + 1] - times[low];
  return { row: low, part: step > 0 ? Math.min(Math.max((t - times[low]) / step, 0), 1) : 0 };
}

// Entry k of a track at a place between two rows.
function at(track, place, k) {
  if (track.rows === 1) return track.data[k];
  const i = place.row * track.width + k;
  if (!place.part) return track.data[i];
  return (1 - place.part) * track.data[i] + place.part * track.data[i + track.width];
}

function column(track, k) {
  return Array.from({ length: track.rows }, (_, row) => track.data[row * track.width + k]);
}

// The row whose time is nearest.
function nearest(times, t) {
  const { row, part } = placeIn(times, t);
  return part > 0.5 && row + 1 < times.length ? row + 1 : row;
}

// By how much the measured shape is displaced at a sample: for each field, functions of the sample for the entries that
// are; these are residuals of a channel, or tracks of their own.
function offsetsOf(offsets, run) {
  const functions = (columns) => {
    const found = {};
    for (const entry of columns) {
      if (entry.channel !== undefined) {
        const { data, width } = run.residual;
        found[entry.column] = (sample) => entry.factor * data[sample * width + entry.channel];
      } else {
        const { data } = unpacked(entry.track);
        found[entry.column] = (sample) => data[sample];
      }
    }
    return found;
  };
  return Object.fromEntries(Object.entries(offsets).map(([name, columns]) => [name, functions(columns)]));
}

function decodedRun(run) {
  const decoded = { ...run, times: unpacked(run.times).data, curve: unpacked(run.curve) };
  if (run.samples) {
    decoded.samples = unpacked(run.samples).data;
    decoded.measured = unpacked(run.measured);
    decoded.residual = unpacked(run.residual);
    if (run.noise) decoded.noise = unpacked(run.noise);
  }
  if (run.bands) decoded.bands = run.bands.map(unpacked);
  if (run.motion) {
    const all = (fields) => Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, unpacked(field)]));
    decoded.motion = {
      ...run.motion,
      shapes: run.motion.shapes.map((shape) => ({
        ...shape,
        fields: all(shape.fields),
        offsets: offsetsOf(shape.offsets, decoded),
      })),
    };
  }
  return decoded;
}
