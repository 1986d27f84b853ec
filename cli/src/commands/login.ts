import { resolve } from "node:path";
import type { CommandContext } from "../context.ts";
import { CommandError, UsageError } from "../errors.ts";
import { ApiCaller } from "../network/api-caller.ts";
import { authenticate, type Proof } from "../network/authenticate.ts";
import { controllerUrl, networkNameOf } from "../network/controller-url.ts";
import { identityFile, loginMaterial } from "../network/login-material.ts";
import { otherControllers, tellOfSwitch } from "../network/other-controllers.ts";
import { checkedName, type LoginWay, NetworkStore, type SavedNetwork } from "../network/saved-network.ts";
import { givenLine, givenText } from "../terminal/given-text.ts";
import { ask, askSecret, canAsk } from "../terminal/questions.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { once } from "./shared-options.ts";

interface LoginOptions {
  readonly network?: string;
  readonly username?: string;
  readonly passwordFile?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly identity?: string;
  readonly tokenFile?: string;
  readonly ca?: string;
  readonly fingerprint?: string;
}

const HELP = `
Without an option that says how, user name and password are asked for. A session by password or by a token from the standard input ends when it was not
used for a while (30 minutes unless the controller says otherwise); log in again then. The other ways begin new sessions by themselves.

At the first login the fingerprint of the network's authority is shown. The authority that you confirm is saved and must vouch for the controller from then
on. Compare the fingerprint with what the network's administrator tells you.

Examples:
  sallyport login https://ctrl.example.org:1280 -u admin
  sallyport login https://ctrl.example.org:1280 -u admin --password-file /run/secrets/admin --ca ca.pem -n production
  sallyport login --identity admin.json
  sallyport login https://ctrl.example.org:1280 --cert admin.pem --key admin.key
  some-provider print-token | sallyport login https://ctrl.example.org:1280 --token-file -
  sallyport login -n production          (again, as before)
`;

export const configureLogin: Configure = (command, context) => {
  command
    .description("Logs in to a network and makes it the current one.")
    .argument("[controller]", "https://HOST:PORT; HOST alone means port 1280")
    .option("-n, --network <name>", "what to call the network; the controller's host name when absent", once("network"))
    .option("-u, --username <name>", "log in by password", once("username"))
    .option("--password-file <file>", "its first line is the password; - for standard input", once("password-file"))
    .option("--cert <file>", "log in by certificate: PEM, with its chain", once("cert"))
    .option("--key <file>", "the private key of the certificate, PEM", once("key"))
    .option("--identity <file>", "log in with an identity file, as enrollments write it", once("identity"))
    .option(
      "--token-file <file>",
      "log in with a token of a provider that the network trusts; - for standard input",
      once("token-file"),
    )
    .option("--ca <file>", "authorities to trust, PEM, in place of the question", once("ca"))
    .option(
      "--fingerprint <sha256>",
      "fingerprint of the authority to trust, in place of the question",
      once("fingerprint"),
    )
    .addHelpText("after", HELP)
    .action(async (controller: string | undefined, options: LoginOptions) => await login(controller, options, context));
};

async function login(given: string | undefined, options: LoginOptions, context: CommandContext): Promise<void> {
  const store = new NetworkStore(context.env);
  const before = await savedBefore(store, given, options);
  const way = again(wayOf(options), before?.saved.login);
  const identity = way.method === "identity" ? await identityFile(way.file, context) : undefined;
  const address = given === undefined ? (before?.saved.controller ?? identity?.controller) : controllerUrl(given);
  if (address === undefined) throw new UsageError("which controller? sallyport login https://HOST:PORT");
  const name = checkedName(options.network ?? before?.name ?? networkNameOf(address));
  const trusted = await knownTrust(store, name, address);
  const ca =
    options.ca !== undefined ? await givenText(options.ca, context) : (identity?.ca ?? trusted ?? (await asked()));
  const { cert, key, proof: fromFiles } = await loginMaterial(way, context);
  const { login: done, proof } =
    fromFiles === undefined ? await askedProof(way, options, context) : { login: way, proof: fromFiles };
  const others = before?.saved.controller === address ? before.saved.others : undefined;
  const caller = new ApiCaller({ controller: address, others, ca, cert, key }, context.signal);
  caller.onSwitch = (former, next) => tellOfSwitch(context, former, next);
  try {
    const session = await authenticate(caller, proof, context);
    const known = { ...(others && { others }), ...(await otherControllers(caller, address)) };
    await store.write(name, { controller: address, ...known, login: done, session, ...(ca !== undefined && { ca }) });
    await store.use(name);
    context.stdout.write(`${visible(`logged in to ${name} (${address}) as ${session.identity}`)}\n`);
  } finally {
    caller.close();
  }

  async function asked(): Promise<string | undefined> {
    const { firstTrust } = await import("../network/first-trust.ts");
    return await firstTrust({ controller: address ?? "", fingerprint: options.fingerprint }, context);
  }
}

/** The network of an earlier login, where the user names no controller. */
async function savedBefore(
  store: NetworkStore,
  given: string | undefined,
  options: LoginOptions,
): Promise<{ readonly name: string; readonly saved: SavedNetwork } | undefined> {
  if (given !== undefined || options.identity !== undefined) return undefined;
  const name = options.network ?? (await store.current());
  if (name === undefined || !(await store.names()).includes(name)) {
    if (options.network === undefined) return undefined;
    throw new UsageError(`no network '${name}' is saved: name its controller, too`);
  }
  return { name, saved: await store.read(name) };
}

/** What the options leave open is as at the earlier login. */
function again(way: LoginWay | undefined, before: LoginWay | undefined): LoginWay {
  const isOpen =
    way === undefined || (way.method === "password" && way.username === "" && before?.method === "password");
  return (isOpen ? before : way) ?? { method: "password", username: "" };
}

/** What was trusted at an earlier login to the same controller. */
async function knownTrust(store: NetworkStore, name: string, controller: string): Promise<string | undefined> {
  if (!(await store.names()).includes(name)) return undefined;
  const saved = await store.read(name).catch(() => undefined);
  return saved?.controller === controller ? saved.ca : undefined;
}

/** How the options say to log in; undefined when they do not. @throws UsageError for two ways at once */
function wayOf({ username, passwordFile, cert, key, identity, tokenFile }: LoginOptions): LoginWay | undefined {
  if ((cert === undefined) !== (key === undefined)) throw new UsageError("--cert and --key go together");
  const ways: LoginWay[] = [];
  if (username !== undefined || passwordFile !== undefined) ways.push({ method: "password", username: username ?? "" });
  if (cert !== undefined && key !== undefined)
    ways.push({ method: "certificate", certFile: resolve(cert), keyFile: resolve(key) });
  if (identity !== undefined) ways.push({ method: "identity", file: resolve(identity) });
  if (tokenFile !== undefined) ways.push({ method: "token", ...(tokenFile !== "-" && { file: resolve(tokenFile) }) });
  if (ways.length > 1)
    throw new UsageError("log in by one of --username, --cert with --key, --identity and --token-file, not by several");
  return ways[0];
}

/** What only the user can give: a password, or a token that is in no file. */
async function askedProof(
  way: LoginWay,
  { passwordFile, tokenFile }: LoginOptions,
  context: CommandContext,
): Promise<{ readonly login: LoginWay; readonly proof: Proof }> {
  if (way.method === "token") {
    if (tokenFile === undefined) throw new UsageError("this network needs a fresh token: add --token-file FILE");
    return { login: way, proof: { method: "ext-jwt", token: await givenLine(tokenFile, context) } };
  }
  if (way.method !== "password") throw new Error(`${way.method} needs no question`);
  if (!canAsk(context) && (way.username === "" || passwordFile === undefined)) {
    throw new UsageError(
      "there is no terminal to ask for user name and password: add --username NAME --password-file FILE",
    );
  }
  const username = way.username === "" ? (await ask("User name: ", context)).trim() : way.username;
  const password =
    passwordFile === undefined ? await askSecret("Password: ", context) : await givenLine(passwordFile, context);
  if (username === "" || password === "") throw new CommandError("user name and password must not be empty");
  return { login: { method: "password", username }, proof: { method: "password", username, password } };
}
