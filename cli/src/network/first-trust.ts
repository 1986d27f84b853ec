/** Whom to trust as the controller of a network, at the first login. */
import type { X509Certificate } from "node:crypto";
import { connect, type TLSSocket } from "node:tls";
import { type EnrollmentTrust, fetchCaBundle } from "@sallyport/sdk";
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus, UsageError } from "../errors.ts";
import { canAsk, confirm } from "../terminal/questions.ts";

const TIMEOUT_MS = 15_000;

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
  const { leaf, isTrusted } = await served(url, context.signal);
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

/** What a server presents, and whether the authorities of this system vouch for it. */
async function served(url: URL, signal: AbortSignal): Promise<{ leaf: X509Certificate; isTrusted: boolean }> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const ended = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket: TLSSocket = connect(
    { host, port: Number(url.port || 443), servername: /^[\d.]+$|:/.test(host) ? "" : host, rejectUnauthorized: false },
    resolve,
  );
  socket.once("error", reject);
  const stop = (): void => reject(new Error("it does not answer"));
  ended.addEventListener("abort", stop, { once: true });
  try {
    await promise;
    const raw = socket.getPeerX509Certificate();
    if (raw === undefined) throw new Error("it presents no certificate");
    return { leaf: raw, isTrusted: socket.authorized };
  } catch (error) {
    signal.throwIfAborted();
    const { code, message } = error as NodeJS.ErrnoException;
    const reason =
      code === "ECONNREFUSED" ? "no program listens there; is the controller running, and is the port right?" : message;
    throw new CommandError(`cannot reach ${url.origin}: ${reason}`, ExitStatus.Unreachable, { cause: error });
  } finally {
    ended.removeEventListener("abort", stop);
    socket.destroy();
  }
}

const bare = (fingerprint: string): string => fingerprint.replaceAll(/[^0-9A-Fa-f]/g, "").toUpperCase();

/** As Node gives it: undefined for an empty name, in spite of its types. */
function subjectOf({ subject }: X509Certificate): string {
  return (subject as string | undefined)?.replaceAll("\n", ", ") || "an authority without a name";
}
