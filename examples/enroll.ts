/** Turns a one-time token into an identity file: `node examples/enroll.ts TOKEN_FILE IDENTITY_FILE`. */
import { readFile, writeFile } from "node:fs/promises";
import { enroll } from "@sallyport/sdk";

const [tokenFile = "", identityFile = ""] = process.argv.slice(2);

const identity = await enroll(await readFile(tokenFile, "utf8"));
await writeFile(identityFile, JSON.stringify(identity, null, 2), { mode: 0o600, flag: "wx" });
