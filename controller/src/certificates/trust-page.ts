import type { Page } from "../http/pages.ts";
import type { Secrets } from "../store/secrets.ts";

export const TRUST_PATH = "/.well-known/sallyport/trust";
const PURPOSE = "sallyport trust bundle 1";
const NONCE = /^[0-9a-f]{32,128}$/;

/**
 * Gives the CA bundle of this network to a caller that keeps its secret key, such as the operator of a Kubernetes cluster: the bundle, and a proof over
 * the asker's nonce and the bundle that only a holder of the key can make (docs/controller/pki.md, "Trust by the secret key"). It needs no trust in the connection.
 */
export function trustPage(secrets: Pick<Secrets, "prove">, bundlePem: () => string): Page {
  return {
    path: TRUST_PATH,
    async handle({ query: { nonce } }) {
      if (typeof nonce !== "string" || !NONCE.test(nonce)) return undefined;
      const bundle = bundlePem();
      const data = { bundle, proof: secrets.prove(`${nonce}\n${bundle}`, PURPOSE) };
      return { status: 200, contentType: "application/json", body: JSON.stringify({ data, meta: {} }) };
    },
  };
}
