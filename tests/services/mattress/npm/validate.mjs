// Reads {"vocabulary", "things"} and prints the issues of each thing, as [{thing, severity, type, message}].
import { readFileSync } from 'node:fs'
import Validator from '@adobe/structured-data-validator'

const { vocabulary, things } = JSON.parse(readFileSync(0, 'utf8'))
const validator = new Validator(vocabulary)
const told = []
for (const [thing, data] of things.entries()) {
  const issues = await validator.validate({ jsonld: { [data['@type']]: [data] } })
  for (const { severity, issueMessage, path } of issues) {
    told.push({ thing, severity, type: path.at(-1).type, message: issueMessage })
  }
}
console.log(JSON.stringify(told))
