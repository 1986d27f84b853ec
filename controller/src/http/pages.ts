/** Pages beside the APIs, for machines that watch the controller. */
import type { X509Certificate } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { pathNotFound, type ServerContext, send } from "./reply.ts";
import { peerCertificatesOf } from "./request.ts";

export interface PageRequest {
  readonly query: Readonly<Record<string, unknown>>;
  /** What the client presented, leaf first; unverified. */
  readonly peerCertificates: readonly X509Certificate[];
}

export interface PageAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** Answers GET of one path. */
export interface Page {
  /** The whole path. */
  readonly path: string;
  /** Undefined: to this caller there is no such page. */
  handle(request: PageRequest): Promise<PageAnswer | undefined>;
}

export function mountPages(app: FastifyInstance, context: ServerContext, pages: readonly Page[]): void {
  for (const page of pages) {
    app.get(page.path, async (request, reply) => {
      const answer = await page.handle({
        query: request.query as Readonly<Record<string, unknown>>,
        peerCertificates: peerCertificatesOf(request.raw),
      });
      if (answer === undefined) throw pathNotFound(request.raw);
      const body = Buffer.from(answer.body);
      await send(context, reply, { status: answer.status, headers: { "content-type": answer.contentType }, body });
      return reply;
    });
  }
}
