/** Certificates that are outside their dates, or seem to be because a clock is wrong. */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:tls";
import type { IdentityFile } from "@sallyport/sdk";
import { TestAuthority } from "@sallyport/wire/testing";
import { deleteAuthenticator, enrollAgain, withAuthPolicy } from "./authentication-ways.ts";
import type { Subject } from "./subject.ts";
import { id, type Way } from "./way.ts";

const DAY_MS = 86_400_000;
const daysFromNow = (days: number): Date => new Date(Date.now() + days * DAY_MS);

/** Gives the laptop a certificate of another authority, and an authentication policy that wants a valid one. */
async function withCertificate(subject: Subject, from: number, until: number): Promise<() => Promise<unknown>> {
  const { management } = subject.network;
  const { laptop } = subject;
  const authority = await TestAuthority.create("Plant");
  const caId = await register(subject, authority);
  const { certPem, keyPem } = await authority.issue({
    ...{ commonName: laptop.id, notBefore: daysFromNow(from), notAfter: daysFromNow(until) },
  });
  const restorePolicy = await withAuthPolicy(subject, { certAllowed: true, requireTotp: false });
  await deleteAuthenticator(subject);
  await management.createAuthenticator({ body: { identityId: laptop.id, method: "cert", certPem } });
  changeFile(subject, ({ id: { ca }, ...file }) => ({
    ...file,
    id: { ca: ca ?? null, cert: `pem:${certPem}`, key: `pem:${keyPem}` },
  }));
  return async () => {
    await deleteAuthenticator(subject);
    await management.deleteCa(id(caId));
    await restorePolicy();
    await enrollAgain(subject);
  };
}

/** Registers an authority and proves that its key is here; answers its id. */
async function register({ network: { management } }: Subject, authority: TestAuthority): Promise<string> {
  const { data } = await management.createCa({
    body: {
      ...{ name: "plant", certPem: authority.certPem, identityRoles: [] },
      ...{ isAuthEnabled: true, isAutoCaEnrollmentEnabled: false, isOttCaEnrollmentEnabled: false },
    },
  });
  const { data: ca } = await management.detailCa(id(data.id));
  const { certPem } = await authority.issue({ commonName: ca.verificationToken ?? "" });
  await management.verifyCa({ ...id(data.id), text: certPem });
  return data.id;
}

function changeFile({ laptop }: Subject, change: (file: IdentityFile) => IdentityFile): void {
  const file = JSON.parse(readFileSync(laptop.file, "utf8")) as IdentityFile;
  writeFileSync(laptop.file, JSON.stringify(change(file)), { mode: 0o600 });
}

/**
 * What a machine whose clock is wrong meets: the controller's certificate is outside its dates. Here the certificate's dates are shifted instead of the clock:
 * TLS compares the two.
 */
async function withClock(subject: Subject, daysFast: number): Promise<() => Promise<unknown>> {
  const authority = await TestAuthority.create("Network");
  const [from, until] = [daysFromNow(-daysFast - 0.5), daysFromNow(-daysFast + 0.5)];
  const { certPem: cert, keyPem: key } = await authority.issue({
    dns: ["localhost"],
    notBefore: from,
    notAfter: until,
  });
  const controller = createServer({ cert, key }, (socket) => socket.on("error", () => {}));
  controller.listen(0, "127.0.0.1");
  await once(controller, "listening");
  const { port } = controller.address() as AddressInfo;
  const before = readFileSync(subject.laptop.file, "utf8");
  changeFile(subject, ({ id: { ca, ...keys }, ...file }) => ({
    ...file,
    ztAPI: `https://localhost:${port}/edge/client/v1`,
    id: { ...keys, ca: `${ca}\n${authority.certPem}` },
  }));
  return async () => {
    writeFileSync(subject.laptop.file, before, { mode: 0o600 });
    controller.close();
    await once(controller, "close");
  };
}

const ISO = String.raw`20[-\dT:.]+Z`;
const CLOCK = `and the clock of this machine shows ${ISO}`;

export const CLOCKS: readonly Way[] = [
  {
    what: "the identity's certificate has expired",
    code: "CERTIFICATE_NOT_VALID",
    message: "its certificate expired at 20",
    remedy: 'Have the certificate authority "plant" issue a new certificate',
    saidBySdk: new RegExp(`its certificate was valid until ${ISO}, ${CLOCK}: enroll again, or correct the clock`),
    breakIt: (subject) => withCertificate(subject, -2, -1),
  },
  {
    what: "the identity's certificate is not valid yet",
    code: "CERTIFICATE_NOT_VALID",
    message: "check clocks; the controller's clock shows 20",
    remedy: "Correct the clock",
    saidBySdk: new RegExp(`its certificate is valid from ${ISO} on, ${CLOCK}: correct the clock that is wrong`),
    breakIt: (subject) => withCertificate(subject, 1, 2),
  },
  {
    what: "the clock of the identity's machine is days slow",
    code: "NOT_LOGGED_IN",
    saidBySdk: new RegExp(`the certificate is valid from ${ISO} on, ${CLOCK}: correct the clock that is wrong`),
    breakIt: (subject) => withClock(subject, -2),
  },
  {
    what: "the clock of the identity's machine is days fast",
    code: "NOT_LOGGED_IN",
    saidBySdk: new RegExp(
      `the certificate was valid until ${ISO}, ${CLOCK}: renew the certificate, or correct the clock`,
    ),
    breakIt: (subject) => withClock(subject, 2),
  },
];
