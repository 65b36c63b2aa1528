// Runs JavaScript samples one after the other in this process, as run_samples.py does Python ones.
import { stdin, stdout } from "node:process";

const Program = (async () => {}).constructor;

async function outcome({ source, environment }) {
  const shown = [];
  Object.assign(process.env, environment);
  try {
    const status = await new Program("console", `${source}\nreturn answer.status;`)({ log: (value) => shown.push(value) });
    return { status, shown: shown[0] };
  } catch (error) {
    return { failure: String(error.stack ?? error) };
  }
}

let text = "";
for await (const piece of stdin) text += piece;
const outcomes = [];
for (const job of JSON.parse(text)) outcomes.push(await outcome(job));
stdout.write(JSON.stringify(outcomes));
