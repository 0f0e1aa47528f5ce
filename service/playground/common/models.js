// Names of the served models: as the API takes them, and as the page shows them.

export const identity = (model) => `${model.name}@${model.version}`;

// The name with its version, unless the version is a checksum.
export const named = (model) => (/^\d+$/.test(model.version) ? `${model.name}, version ${model.version}` : model.name);

export const label = (model) => [named(model), ...model.aliases].join(", ");
