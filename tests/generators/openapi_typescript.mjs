// openapi-typescript writes the types of every document that is named: node openapi_typescript.mjs FOLDER NAME...
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const [folder, ...names] = process.argv.slice(2);
for (const name of names) {
  const types = await openapiTS(readFileSync(`${folder}/${name}.json`, "utf-8"), { silent: true });
  writeFileSync(`${folder}/${name}.d.ts`, astToString(types));
}
