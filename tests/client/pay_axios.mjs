// @x402/axios, the official client of version 2 for axios, pays for one request.
import { decodePaymentResponseHeader, wrapAxiosWithPayment, x402Client } from "@x402/axios";
import { ExactEvmScheme } from "@x402/evm";
import axios from "axios";
import { privateKeyToAccount } from "viem/accounts";

const client = new x402Client();
client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PAYER_KEY)));
const answer = await wrapAxiosWithPayment(axios.create(), client).get(process.env.URL);
const settled = decodePaymentResponseHeader(answer.headers["payment-response"]);
console.log(JSON.stringify({ status: answer.status, body: answer.data, settled }));
