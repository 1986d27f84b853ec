import { stat } from "node:fs/promises";
import { isIP } from "node:net";
import { SerialQueue } from "@sallyport/async";
import { ConfigError, type ConfigProblem, formatPath, type Path, type Place } from "@sallyport/config-file";
import { type Identity, type Logger, withServerCertificates } from "@sallyport/wire";
import type { ApiCertificates } from "../pki/pki.ts";
import {
  type CertificateFiles,
  type OperatorCertificate,
  OperatorCertificateError,
  readOperatorCertificate,
} from "./operator-certificate.ts";

const LOOK_MS = 2_000;
const DAY_MS = 86_400_000;
const WARN_BEFORE_MS = 7 * DAY_MS;
const SETTING: Path = ["api", "serverCertificates"];

export interface OperatorCertificatesOptions {
  /** Absolute paths, in the order of the configuration: of several for one name the first is served. */
  readonly files: readonly CertificateFiles[];
  /** Host under which the API is advertised, without port. */
  readonly apiHost: string;
  /** The configuration's file, and where in it something stands; for messages. */
  readonly configFile: string;
  readonly placeOf: (path: Path) => Place;
  readonly now?: () => Date;
  /** Milliseconds between two looks at the files. */
  readonly lookEveryMs?: number;
  readonly log: Logger;
}

interface WatchedPair {
  readonly files: CertificateFiles;
  current: OperatorCertificate;
  /** State of the files when they were read last, whatever came of it. */
  seen: string;
  /** State of the files at the last look. */
  looked: string;
  warnedAt: number;
}

/**
 * The certificates of the operator's own with which the API is served beside the network's. Files are read again when they change: what cannot be used is
 * refused with a line in the log, and the former pair stays.
 */
export class OperatorCertificates {
  readonly #options: OperatorCertificatesOptions;
  readonly #entries: readonly WatchedPair[];
  readonly #now: () => Date;
  readonly #work = new SerialQueue();
  #timer: NodeJS.Timeout | undefined;
  #onChange: () => void = () => undefined;

  private constructor(options: OperatorCertificatesOptions, entries: readonly WatchedPair[]) {
    this.#options = options;
    this.#entries = entries;
    this.#now = options.now ?? (() => new Date());
  }

  /** @throws ConfigError with everything that is wrong with any of them */
  static async load(options: OperatorCertificatesOptions): Promise<OperatorCertificates> {
    const now = options.now?.() ?? new Date();
    const problems: ConfigProblem[] = [];
    const entries: WatchedPair[] = [];
    for (const [i, files] of options.files.entries()) {
      try {
        const seen = await stateOf(files);
        const current = await readOperatorCertificate(files, now);
        entries.push({ files, current, seen, looked: seen, warnedAt: 0 });
      } catch (error) {
        if (!(error instanceof OperatorCertificateError)) throw error;
        const path = [...SETTING, i, error.part];
        const { expected, found } = error;
        problems.push({ path: formatPath(path), ...options.placeOf(path), expected, found });
      }
    }
    if (problems.length > 0) throw new ConfigError(options.configFile, problems);
    return new OperatorCertificates(options, entries);
  }

  /** Whether the configuration names any. */
  get isUsed(): boolean {
    return this.#entries.length > 0;
  }

  get current(): readonly OperatorCertificate[] {
    return this.#entries.map(({ current }) => current);
  }

  /** What the PKI has to know of them. */
  get forPki(): ApiCertificates {
    const signer = this.#forApiHost;
    return {
      ...(signer && { signer }),
      authorities: [...new Set(this.current.flatMap(({ authorities }) => authorities))],
    };
  }

  /** The identity that the API is served with: that of the network, and these before it wherever they cover the name that is asked for. */
  identityBeside(own: Identity): Identity {
    // Who dials an address names no server; the tokens are signed for what the advertised one shows.
    const unnamed = isIP(this.#options.apiHost) === 0 ? undefined : this.#forApiHost;
    return withServerCertificates(own, this.current, unnamed);
  }

  /** Looks at the files every two seconds from now on; what has changed is read when it is the same at two looks. */
  watch(onChange: () => void): void {
    this.#onChange = onChange;
    if (!this.isUsed) return;
    this.#timer = setInterval(
      () => void this.#run((entry) => this.#look(entry)),
      this.#options.lookEveryMs ?? LOOK_MS,
    ).unref();
  }

  /** Reads all files now, changed or not. */
  reload(): Promise<void> {
    return this.#run(async (entry) => this.#read(entry, await stateOf(entry.files)));
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#work.idle();
  }

  get #forApiHost(): OperatorCertificate | undefined {
    return this.current.find((certificate) => certificate.covers(this.#options.apiHost));
  }

  #run(work: (entry: WatchedPair) => Promise<boolean>): Promise<void> {
    return this.#work.run(async () => {
      let isChanged = false;
      try {
        for (const entry of this.#entries) isChanged = (await work(entry)) || isChanged;
        if (isChanged) this.#onChange();
      } catch (error) {
        this.#options.log.error({ error }, "looking after the API's certificates failed; it will be tried again");
      }
    });
  }

  async #look(entry: WatchedPair): Promise<boolean> {
    this.#warnOfEnd(entry);
    const state = await stateOf(entry.files);
    const isAtRest = state === entry.looked;
    entry.looked = state;
    return isAtRest && state !== entry.seen ? this.#read(entry, state) : false;
  }

  /** Answers whether another certificate is served from now on. */
  async #read(entry: WatchedPair, state: string): Promise<boolean> {
    const { log } = this.#options;
    const { cert, key } = entry.files;
    entry.seen = state;
    try {
      const next = await readOperatorCertificate(entry.files, this.#now());
      if (next.certPem === entry.current.certPem && next.keyPem === entry.current.keyPem) return false;
      entry.current = next;
      entry.warnedAt = 0;
      const signsTokens = this.#forApiHost === next;
      log.info(
        { cert, names: next.names, until: next.leaf.validTo, signsTokens },
        "the API's certificate was replaced",
      );
      return true;
    } catch (error) {
      const reason = (error as Error).message;
      log.warn({ cert, key, reason }, "the API's new certificate cannot be used: the former one stays");
      return false;
    }
  }

  #warnOfEnd(entry: WatchedPair): void {
    const now = this.#now().getTime();
    const { leaf, names } = entry.current;
    if (leaf.validToDate.getTime() - now > WARN_BEFORE_MS || now - entry.warnedAt < DAY_MS) return;
    entry.warnedAt = now;
    const what = { cert: entry.files.cert, names, until: leaf.validTo };
    this.#options.log.warn(what, "a certificate of the API ends soon: put a new one in its place");
  }
}

/** Another text whenever one of the files, or what a link leads to, is another one or was written to. */
async function stateOf({ cert, key }: CertificateFiles): Promise<string> {
  const one = async (path: string) => {
    try {
      const { dev, ino, size, mtimeMs, ctimeMs } = await stat(path);
      return [dev, ino, size, mtimeMs, ctimeMs].join(":");
    } catch (error) {
      return String((error as NodeJS.ErrnoException).code);
    }
  };
  return (await Promise.all([one(cert), one(key)])).join(" ");
}
