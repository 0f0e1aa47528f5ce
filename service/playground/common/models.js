// Names of the served models: as the API takes them, and as the page shows them.

export const identity = (model) => `${model.name}@${model.version}`;

// Among identities, that of a model, or else of another version of it; undefined if there is none.
export function sameModel(identities, wanted) {
  const nameOf = (one) => one.slice(0, one.lastIndexOf("@"));
  return identities.find((one) => one === wanted) ?? identities.find((one) => one && nameOf(one) === nameOf(wanted ?? ""));
}

// The name with its version, unless the version is a checksum.
export const named = (model) => (/^\d+$/.test(model.version) ? `${model.name}, version ${model.version}` : model.name);

export const label = (model) => [named(model), ...model.aliases].join(", ");
