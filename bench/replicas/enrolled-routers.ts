import { createCsr, createKeyPair } from "@sallyport/wire";
import type { ControllerSet } from "./controller-set.ts";
import { dataOf, get, idOf, post } from "./requests.ts";

const AT_A_TIME = 8;

/** What a router needs to connect, as PEM texts. */
export interface EnrolledRouter {
  readonly id: string;
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem: string;
}

interface Issued {
  readonly cert: string;
  readonly ca: string;
}

/** Enrolls routers over the API, without the checks of a router's own program, which costs a process for each. */
export async function enrollRouters(set: ControllerSet, count: number): Promise<EnrolledRouter[]> {
  const enrolled: EnrolledRouter[] = [];
  await set.at(0).client.run(count, AT_A_TIME, async (index, ask) => {
    const id = idOf(await ask(post("/edge-routers", { name: `simulated-${index}`, roleAttributes: ["simulated"] })));
    const { enrollmentToken } = dataOf<{ enrollmentToken: string }>(await ask(get(`/edge-routers/${id}`)));
    const { keyPem } = await createKeyPair("P-256");
    const csr = await createCsr({ commonName: id, keyPem, sans: { dns: ["localhost"], ip: ["127.0.0.1"] } });
    const path = `/edge/client/v1/enroll?method=erott&token=${enrollmentToken}`;
    const body = { certCsr: csr, serverCertCsr: csr };
    const { cert, ca } = dataOf<Issued>(await ask({ method: "POST", path, body, token: "" }));
    enrolled.push({ id, keyPem, certPem: cert, caPem: ca });
  });
  return enrolled;
}
