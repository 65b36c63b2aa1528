// @x402/fetch, the official client of version 2, pays for one request.
import { ExactEvmScheme } from "@x402/evm";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const client = new x402Client();
client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PAYER_KEY)));
const answer = await wrapFetchWithPayment(fetch, client)(process.env.URL);
const header = answer.headers.get("payment-response");
console.log(JSON.stringify({ status: answer.status, body: await answer.json(), settled: decodePaymentResponseHeader(header) }));
