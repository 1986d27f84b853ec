/** The release of a test run: setup.ts makes it, the test files read it. */
const RELEASE = "SALLYPORT_RELEASE_UNDER_TEST";

/** No version of the repository, so that every place that has not taken it over is found. */
export const VERSION = "7.8.9";

/** For the processes that are started from now on. */
export function offer(folder: string): void {
  process.env[RELEASE] = folder;
}

/** False where none can be made. */
export const hasRelease = process.env[RELEASE] !== undefined;
/** Its folder. */
export const RELEASE_FOLDER = process.env[RELEASE] ?? "";

const PUBLIC_KEY = "SALLYPORT_RELEASE_PUBLIC_KEY";
/** For the processes that are started from now on: it is signed, and this file has the key. */
export function offerKey(file: string): void {
  process.env[PUBLIC_KEY] = file;
}

/** File of the key that the release is signed with; undefined where minisign cannot be had. */
export const publicKey = process.env[PUBLIC_KEY];
