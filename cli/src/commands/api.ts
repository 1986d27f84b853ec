import { ROUTES, reportedError } from "@sallyport/api/client";
import { nearestName } from "@sallyport/config-file/nearest-name";
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus, UsageError } from "../errors.ts";
import { METHODS } from "../network/api-paths.ts";
import { withNetwork } from "../network/open-network.ts";
import { givenText } from "../terminal/given-text.ts";
import { visibleLines } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, once, withNetworkOption } from "./shared-options.ts";

interface ApiOptions extends NetworkOption {
  readonly data?: string;
  readonly include?: true;
}

const HELP = `
A path that begins with none of /edge, /fabric, /oidc, /.well-known, /health-checks and /metrics is one of the Management API: /identities is
/edge/management/v1/identities. The answer goes to the standard output as it is, except that a terminal gets JSON on several lines. Operations are listed in
docs/reference/api-operations.md.

Examples:
  sallyport api GET '/identities?limit=1'
  sallyport api POST /identities/ID/disable --data '{"durationMinutes": 60}'
  sallyport api POST /database/snapshot
  sallyport api PATCH /services/ID --data @change.json
  sallyport api GET /fabric/v1/circuits
`;

export const configureApi: Configure = (command, context) => {
  command
    .description("Calls any operation of the controller's APIs.")
    .argument("<method>", METHODS.join(", "))
    .argument("<path>", "with its query")
    .option("--data <json>", "JSON to send; @FILE for a file, @- for standard input", once("data"))
    .option("-i, --include", "print status and headers of the answer, too");
  withNetworkOption(command)
    .addHelpText("after", HELP)
    .action(async (method: string, path: string, options: ApiOptions) => {
      const request = { method: methodOf(method), path: pathOf(path), ...(await bodyOf(options.data, context)) };
      await withNetwork(options.network, context, async ({ caller }) => {
        const answer = await caller.send(request);
        const { stdout } = context;
        if (options.include === true) {
          const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
          stdout.write(visibleLines([`HTTP ${answer.status}`, ...lines, "", ""].join("\n")));
        }
        stdout.write(bodyText(answer.body, stdout.isTTY === true));
        if (answer.status >= 200 && answer.status <= 299) return;
        const error = reportedError(answer, new URL(request.path, caller.controller));
        const hint = answer.status === 404 ? nearestPath(request.path) : "";
        const status = { 401: ExitStatus.LoggedOut, 404: ExitStatus.NotFound }[answer.status] ?? ExitStatus.Failed;
        throw new CommandError(`${error.message}${hint}`, status, { cause: error });
      });
    });
};

function methodOf(text: string): string {
  const method = text.toUpperCase();
  if (METHODS.some((each) => each === method)) return method;
  const nearest = nearestName(method, METHODS);
  const hint = nearest === undefined ? `expected ${METHODS.join(", ")}` : `did you mean ${nearest}?`;
  throw new UsageError(`unknown method '${text}': ${hint}`);
}

function pathOf(text: string): string {
  if (/^[a-z]+:\/\//i.test(text)) throw new UsageError("expected a path, not a URL: the host is that of the network");
  const path = text.startsWith("/") ? text : `/${text}`;
  return /^\/(edge|fabric|oidc|\.well-known|health-checks|metrics)(\/|\?|$)/.test(path)
    ? path
    : `${ROUTES.management.basePath}${path}`;
}

async function bodyOf(data: string | undefined, context: CommandContext): Promise<{ readonly body?: unknown }> {
  if (data === undefined) return {};
  const text = data.startsWith("@") ? await givenText(data.slice(1), context) : data;
  try {
    return { body: JSON.parse(text) as unknown };
  } catch (error) {
    throw new UsageError(`--data is no JSON: ${(error as Error).message}`);
  }
}

function bodyText(body: Buffer, isTerminal: boolean): string | Buffer {
  if (!isTerminal) return body;
  const text = body.toString("utf8");
  try {
    return `${visibleLines(JSON.stringify(JSON.parse(text), undefined, 2))}\n`;
  } catch {
    return text === "" ? "" : `${visibleLines(text)}\n`;
  }
}

/** Of the known paths the one that needs the fewest edits, with the parts that stand for ids as they were given. */
function nearestPath(asked: string): string {
  const [path = ""] = asked.split("?", 1);
  const given = path.split("/");
  const known = Object.values(ROUTES).flatMap(({ basePath, routes }) =>
    Object.values(routes).map((route) =>
      `${basePath}${route.path}`
        .split("/")
        .map((part, at) => (part.startsWith("{") ? (given[at] ?? part) : part))
        .join("/"),
    ),
  );
  const nearest = known.includes(path) ? undefined : nearestName(path, known);
  return nearest === undefined ? "" : `; did you mean ${nearest}?`;
}
