/** Whom to trust as the controller of a network, at the first login. */
import type { X509Certificate } from "node:crypto";
import { type EnrollmentTrust, fetchCaBundle } from "@sallyport/sdk";
import type { CommandContext } from "../context.ts";
import { CommandError, UsageError } from "../errors.ts";
import { canAsk, confirm } from "../terminal/questions.ts";
import { presentedCertificate } from "./presented-certificate.ts";

export interface TrustQuestion {
  /** `https://host:port` */
  readonly controller: string;
  /** SHA-256 of an authority, which answers the question. */
  readonly fingerprint?: string | undefined;
}

/**
 * The authorities (PEM) that the user wants to trust; undefined where the system trusts the controller already.
 * Nothing secret is sent before: the user compares the fingerprint with what the controller's administrator says.
 *
 * @throws CommandError when the user refuses, or cannot be asked
 */
export async function firstTrust(question: TrustQuestion, context: CommandContext): Promise<string | undefined> {
  const { controller, fingerprint } = question;
  const url = new URL(controller);
  const { leaf, isTrusted } = await presentedCertificate(url, context.signal);
  if (isTrusted && fingerprint === undefined) return undefined;
  const trust: EnrollmentTrust = { leaf };
  const bundle = await fetchCaBundle(url, trust, context.signal);
  const wanted = fingerprint === undefined ? undefined : bare(fingerprint);
  const chosen = bundle.certificates.filter(
    ({ fingerprint256 }) => wanted === undefined || bare(fingerprint256) === wanted,
  );
  if (wanted !== undefined) {
    if (chosen.length > 0) return chosen.map(String).join("");
    throw new CommandError(
      `${controller} names no authority with the fingerprint ${fingerprint}; it names ${bundle.certificates.map(({ fingerprint256 }) => fingerprint256).join(", ")}. Do not go on unless its administrator confirms one of them`,
    );
  }
  const list = bundle.certificates.map((each) => `  ${subjectOf(each)}\n    SHA-256 ${each.fingerprint256}`).join("\n");
  context.stderr.write(
    `This machine does not know the authority of ${url.host}. The controller names:\n${list}\nCompare the fingerprint with what the network's administrator tells you\n('sallyport-controller pki status' prints it on the controller's machine).\n`,
  );
  if (!canAsk(context)) {
    throw new UsageError("there is no terminal to ask: log in with --ca FILE or --fingerprint SHA256");
  }
  if (await confirm("Trust it from now on?", context)) return bundle.pem;
  throw new CommandError("the authority is not trusted: nothing was saved");
}

const bare = (fingerprint: string): string => fingerprint.replaceAll(/[^0-9A-Fa-f]/g, "").toUpperCase();

/** As Node gives it: undefined for an empty name, in spite of its types. */
function subjectOf({ subject }: X509Certificate): string {
  return (subject as string | undefined)?.replaceAll("\n", ", ") || "an authority without a name";
}
