// @x402/fetch with the scheme `upto` of @x402/evm pays for one request. `sent` is the payment, as it was sent.
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

let sent = "";
const seeing = (input, init) => {
  const request = new Request(input, init);
  sent = request.headers.get("payment-signature") ?? sent;
  return fetch(request);
};
const client = new x402Client();
client.register("eip155:*", new UptoEvmScheme(privateKeyToAccount(process.env.PAYER_KEY)));
const answer = await wrapFetchWithPayment(seeing, client)(process.env.URL);
const body = (await answer.arrayBuffer()).byteLength;
const settled = decodePaymentResponseHeader(answer.headers.get("payment-response"));
console.log(JSON.stringify({ status: answer.status, body, settled, sent }));
