// A client with fetch of every document of the folder DOCUMENTS that NAMES lists, beside it.
const { DOCUMENTS, NAMES } = process.env;

module.exports = Object.fromEntries(
  NAMES.split(" ").map((name) => [
    name,
    { input: `${DOCUMENTS}/${name}.json`, output: { target: `${DOCUMENTS}/${name}.orval.ts`, client: "fetch" } },
  ]),
);
