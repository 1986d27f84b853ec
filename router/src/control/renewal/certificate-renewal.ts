import { errorText, MAX_TIMER_MS } from "@sallyport/async";
import type { CsrConfig } from "@sallyport/router-config";
import {
  createCsr,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Identity,
  type Logger,
  type Message,
  parseCertificates,
  RequestTimeoutError,
  shownText,
} from "@sallyport/wire";
import { certificateRequest } from "../../config/certificate-names.ts";
import type { IdentityFiles } from "../../config/router-identity.ts";
import { replaceFiles, whyUnwritable } from "../../config/staged-file.ts";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { ControlError } from "../errors.ts";

export interface RenewalOptions {
  readonly controllers: Controllers;
  readonly identity: () => Identity;
  /** Absent: the certificates cannot be renewed, because nothing says what names they should have. */
  readonly csr: CsrConfig | undefined;
  /** Files of `identity.cert` and `identity.server_cert`; absent when they are inline and so cannot be written. */
  readonly files: IdentityFiles | undefined;
  /** Loads the identity again after the files were written. */
  readonly reload: () => Promise<void>;
  readonly log: Logger;
  /** Renew at once instead of waiting for the first time. */
  readonly extendNow: boolean;
}

const DAY = 24 * 3_600_000;
const GIVE_UP_MS = 35_000;
const RETRY_MS = 60_000;
/** Characters of a refusal in the log. */
const MAX_REASON = 500;

/**
 * When certificates of this validity are renewed: the smaller of 7 days and a third of the lifetime before the end of the
 * one that ends first.
 */
export function renewalTime(certificates: readonly { validFrom: number; validTo: number }[]): number {
  return Math.min(
    ...certificates.map(({ validFrom, validTo }) => validTo - Math.min(7 * DAY, (validTo - validFrom) / 3)),
  );
}

/**
 * Renews the router's certificates over the control channel with the keys it has: request, certificates, proof that they
 * arrived, and only then the files (docs/protocol/control.md, "Certificate renewal").
 */
export class CertificateRenewal {
  readonly #o: RenewalOptions;
  #timer: NodeJS.Timeout | undefined;
  #arrived: ((response: edgeCtrlPb.EnrollmentCertsResponse) => void) | undefined;
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(options: RenewalOptions) {
    this.#o = options;
    options.controllers.handle(EdgeCtrlType.EnrollmentCertsResponse, (message) => {
      this.#arrived?.(decodeControl(edgeCtrlPb.EnrollmentCertsResponseSchema, message.body));
    });
  }

  start(): void {
    const obstacle = this.#obstacle();
    if (obstacle !== undefined) this.#o.log.warn({}, obstacle);
    else this.#schedule(this.#o.extendNow ? 0 : this.#due() - Date.now());
  }

  /** The identity changed: another program may have renewed it. */
  rearm(): void {
    if (this.#timer !== undefined && this.#running === undefined) this.#schedule(this.#due() - Date.now());
  }

  /** Renews at once. @throws ControlError */
  async now(): Promise<void> {
    const obstacle = this.#obstacle();
    if (obstacle !== undefined) throw new ControlError("CANNOT_RENEW", obstacle);
    await this.#run();
    if (this.#timer !== undefined) this.#schedule(this.#due() - Date.now());
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #obstacle(): string | undefined {
    if (this.#o.csr === undefined) return "without a csr section the certificates cannot be renewed";
    return this.#o.files === undefined ? "inline certificates cannot be renewed, only files" : undefined;
  }

  #due(): number {
    const { certPem, serverCertPem } = this.#o.identity();
    const leafs = [certPem, serverCertPem].flatMap((pem) => parseCertificates(pem ?? "").slice(0, 1));
    return renewalTime(leafs.map((c) => ({ validFrom: Date.parse(c.validFrom), validTo: Date.parse(c.validTo) })));
  }

  #schedule(inMs: number): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    const wait = Math.min(Math.max(inMs, 0), MAX_TIMER_MS);
    this.#timer = setTimeout(() => {
      if (wait < inMs) return this.#schedule(inMs - wait);
      this.#run().then(
        () => this.#schedule(this.#due() - Date.now()),
        (error: unknown) => {
          if (this.#closed) return;
          const reason = errorText(error);
          const validTo = this.#o.identity().leaf.validTo;
          if (error instanceof ControlError && error.code === "CERTIFICATE_EXPIRED") {
            this.#o.log.error({ reason, validTo }, "the certificates can no longer be renewed");
            return;
          }
          this.#o.log.warn({ reason, validTo }, "the certificates are not renewed yet; trying again");
          this.#schedule(RETRY_MS);
        },
      );
    }, wait);
    this.#timer.unref();
  }

  /** One renewal at a time: callers during one wait for it. */
  #run(): Promise<void> {
    this.#running ??= this.#renewOnce().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #renewOnce(): Promise<void> {
    const { csr, files, log } = this.#o;
    if (csr === undefined || files === undefined) return;
    await this.renew(csr, files);
    log.info({ validTo: this.#o.identity().leaf.validTo }, "the certificates were renewed");
  }

  /**
   * One renewal from beginning to end. The new certificates are on disk, beside the old ones, before the controller is told
   * that they arrived, because from then on it takes no others; they take their places once it has confirmed that.
   */
  async renew(csr: CsrConfig, files: IdentityFiles): Promise<void> {
    const { controllers, reload } = this.#o;
    const identity = this.#o.identity();
    if (Date.parse(identity.leaf.validTo) < Date.now()) {
      const text = `the client certificate ended on ${identity.leaf.validTo}: the router has to be enrolled again`;
      throw new ControlError("CERTIFICATE_EXPIRED", text);
    }
    for (const file of [files.cert, files.serverCert]) {
      const reason = await whyUnwritable(file);
      if (reason !== undefined) throw new ControlError("NOT_WRITABLE", `${file} cannot be written: ${reason}`);
    }
    const controller = controllers.best();
    if (controller === undefined) throw new ControlError("NO_CONTROLLER", "no controller is connected");
    const request = (keyPem: string) => createCsr(certificateRequest(identity.id, csr, keyPem));
    const body = encodeControl(edgeCtrlPb.EnrollmentExtendRouterRequestSchema, {
      clientCertCsr: await request(identity.keyPem),
      serverCertCsr: await request(identity.serverKeyPem ?? identity.keyPem),
      requireVerification: true,
    });
    const issued = await this.#issued(controller, body);
    for (const pem of [issued.clientCertPem, issued.serverCertPem]) parseCertificates(pem);
    const added = newAnchors(identity.caPem, issued.caCertsPem);
    const contents: [string, string][] = [
      [files.serverCert, issued.serverCertPem],
      [files.cert, issued.clientCertPem],
    ];
    if (files.ca !== undefined && added !== "") contents.unshift([files.ca, identity.caPem + added]);
    await replaceFiles(contents, () => this.#verify(controller, issued.clientCertPem));
    await reload();
  }

  async #verify(controller: ControllerConnection, clientCertPem: string): Promise<void> {
    const reply = await controller.channel.request({
      contentType: EdgeCtrlType.EnrollmentExtendRouterVerifyRequest,
      body: encodeControl(edgeCtrlPb.EnrollmentExtendRouterVerifyRequestSchema, { clientCertPem }),
    });
    const error = decodeControl(edgeCtrlPb.ErrorSchema, reply.body);
    if (reply.contentType === EdgeCtrlType.Error && error.code === "") return;
    const text = `the controller did not accept the new certificate: ${error.code} ${error.message}`;
    throw new ControlError("RENEWAL_REFUSED", text);
  }

  /** The certificates come in a message of their own, or as the answer; a refusal comes as an answer, or not at all. */
  async #issued(controller: ControllerConnection, body: Buffer): Promise<edgeCtrlPb.EnrollmentCertsResponse> {
    const arrived = Promise.withResolvers<edgeCtrlPb.EnrollmentCertsResponse>();
    this.#arrived = arrived.resolve;
    const contentType = EdgeCtrlType.EnrollmentExtendRouterRequest;
    const ended = new AbortController();
    const answer = controller.channel
      .request({ contentType, body }, { timeoutMs: GIVE_UP_MS, signal: ended.signal })
      .then(issuedBy);
    try {
      return await Promise.race([arrived.promise, answer]);
    } catch (error) {
      if (!(error instanceof RequestTimeoutError)) throw error;
      throw new ControlError("RENEWAL_TIMEOUT", `no certificates came within ${GIVE_UP_MS / 1000} s`);
    } finally {
      this.#arrived = undefined;
      ended.abort();
    }
  }
}

function issuedBy(answer: Message): edgeCtrlPb.EnrollmentCertsResponse {
  if (answer.contentType === EdgeCtrlType.EnrollmentCertsResponse) {
    return decodeControl(edgeCtrlPb.EnrollmentCertsResponseSchema, answer.body);
  }
  throw new ControlError("RENEWAL_REFUSED", `the controller renews no certificates: ${refusalIn(answer)}`);
}

/** An edge error has a code in its headers and a text, or is a message of its own, as the answer to a verification is. */
function refusalIn({ contentType, body, headers }: Message): string {
  if (contentType !== EdgeCtrlType.Error || headers.get(EdgeCtrlHeader.ErrorCode) !== undefined) {
    return shownText(body.toString("utf8"), MAX_REASON);
  }
  const { code, message, cause } = decodeControl(edgeCtrlPb.ErrorSchema, body);
  return shownText([code, message, cause].filter((part) => part !== "").join(" "), MAX_REASON);
}

/**
 * The authorities of the network that the router's bundle lacks, because the network has rotated. What the bundle has
 * stays: it may hold others for a reason.
 */
export function newAnchors(caPem: string, offeredPem: string): string {
  const known = caPem.trim() === "" ? [] : parseCertificates(caPem);
  const offered = offeredPem.trim() === "" ? [] : parseCertificates(offeredPem);
  const added = offered.filter((each) => each.ca && !known.some((one) => one.raw.equals(each.raw)));
  const separator = caPem === "" || caPem.endsWith("\n") ? "" : "\n";
  return added.length === 0 ? "" : separator + added.map(String).join("");
}
