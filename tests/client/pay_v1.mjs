// x402-fetch, the official client of version 1, pays for one request.
import { createSigner, decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";

const signer = await createSigner("base", process.env.PAYER_KEY);
const answer = await wrapFetchWithPayment(fetch, signer)(process.env.URL);
const header = answer.headers.get("x-payment-response");
console.log(JSON.stringify({ status: answer.status, body: await answer.json(), settled: decodeXPaymentResponse(header) }));
