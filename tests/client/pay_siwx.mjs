// @x402/fetch with the extension sign-in-with-x: a wallet's credit pays, and a payment where that is short.
import { ExactEvmScheme } from "@x402/evm";
import { createSIWxClientExtension } from "@x402/extensions/sign-in-with-x";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const account = privateKeyToAccount(process.env.PAYER_KEY);
const client = new x402Client();
client.register("eip155:*", new ExactEvmScheme(account));
client.registerExtension(createSIWxClientExtension({ signers: [account] }));
const paying = wrapFetchWithPayment(fetch, client);
const answers = [];
for (let call = 0; call < 3; call++) {
  const answer = await paying(process.env.URL);
  answers.push({ status: answer.status, rows: (await answer.json()).events?.length, isPaid: answer.headers.has("payment-response"), tier: answer.headers.get("x-credits-tier") });
}
console.log(JSON.stringify(answers));
