// Compiles every contract of this folder; prints ABI, bytecode, compiler and settings as JSON on standard output.
// Run by `make contracts`, with the folder in which the compiler is installed: node compile.mjs FOLDER
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const solc = createRequire(resolve(process.argv[2], "package.json"))("solc");
const here = dirname(fileURLToPath(import.meta.url));
// No metadata at the end of the code: the same source gives the same bytes wherever it lies.
const settings = {
  evmVersion: "cancun",
  metadata: { appendCBOR: false, bytecodeHash: "none" },
  optimizer: { enabled: true, runs: 10000 },
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
};
const sources = Object.fromEntries(
  readdirSync(here)
    .filter((file) => file.endsWith(".sol"))
    .sort()
    .map((file) => [file, { content: readFileSync(resolve(here, file), "utf8") }]),
);
const output = JSON.parse(solc.compile(JSON.stringify({ language: "Solidity", sources, settings })));
for (const error of output.errors ?? []) console.error(error.formattedMessage);
if (output.errors?.length) process.exit(1);

const contracts = {};
for (const file of Object.keys(sources)) {
  for (const [name, made] of Object.entries(output.contracts[file])) {
    contracts[name] = {
      abi: made.abi,
      creation: `0x${made.evm.bytecode.object}`,
      runtime: `0x${made.evm.deployedBytecode.object}`,
    };
  }
}
console.log(JSON.stringify({ compiler: `solc ${solc.version()}`, settings, contracts }, null, 1));
