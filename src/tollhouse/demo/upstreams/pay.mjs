// @x402/fetch, the official client, pays for the request: PAYER_KEY=0x… node pay.mjs URL
import { ExactEvmScheme } from "@x402/evm";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const client = new x402Client();
client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PAYER_KEY)));
const response = await wrapFetchWithPayment(fetch, client)(process.argv[2]);
const settled = decodePaymentResponseHeader(response.headers.get("payment-response"));
console.log(JSON.stringify({ status: response.status, body: await response.json(), transaction: settled.transaction }));
