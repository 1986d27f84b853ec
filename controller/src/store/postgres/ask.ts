import type pg from "pg";

/**
 * The rows of one query. Fails when the server does not answer within `answerMs`, because a connection does not report that its server has vanished. The
 * connection is unusable then.
 */
export async function ask<Row extends pg.QueryResultRow>(
  client: pg.ClientBase,
  text: string,
  values: unknown[] | undefined,
  answerMs: number,
): Promise<Row[]> {
  // The library's types know `query_timeout` of whole clients only.
  const query = { text, values, query_timeout: answerMs } as pg.QueryConfig;
  const { rows } = await client.query<Row>(query);
  return rows;
}
