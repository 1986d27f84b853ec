import type { Route } from "./client/route.ts";
import type { Operation } from "./operation.ts";
import { type ApiName, BASE_PATHS, operations } from "./operations/apis.ts";

/** The file with what the typed client knows of each operation. */
export function clientRoutes(): string {
  const apis = (Object.keys(operations) as ApiName[]).map((api) => {
    const routes = Object.entries<Operation>(operations[api]).map(([id, of]) => [id, routeOf(of)] as const);
    const lines = routes.map(([id, route]) => `      ${id}: ${JSON.stringify(route)},\n`).join("");
    return `  ${api}: {\n    basePath: ${JSON.stringify(BASE_PATHS[api])},\n    routes: {\n${lines}    },\n  },\n`;
  });
  return `// Made from the operations of the contract: \`npm run generate\`.
import type { Routes } from "../route.ts";

/** Every operation of every API as the client calls it. */
export const ROUTES: Routes = {\n${apis.join("")}};\n`;
}

function routeOf({ method, path, auth, body, response }: Operation): Route {
  return {
    ...{ method, path },
    ...(auth === "public" ? { isPublic: true } : {}),
    ...(body.kind === "none" ? {} : { body: body.kind }),
    ...(body.kind === "text" && body.textTypes[0] !== undefined ? { textType: body.textTypes[0] } : {}),
    ...(response.kind === "bare" || response.kind === "raw" ? { answer: response.kind } : {}),
  };
}
