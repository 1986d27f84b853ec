/** As many as a server gives at once. */
const PAGE = 500;

interface Page<T> {
  readonly data: readonly T[];
  readonly meta: { readonly pagination: { readonly totalCount: number } };
}

/**
 * All entities of a list, page by page. Entities that come and go meanwhile move the pages: what appears twice is given once, and
 * one that slipped through is found the next time.
 */
export async function listAll<T extends { readonly id: string }>(
  page: (query: { readonly limit: number; readonly offset: number }) => Promise<Page<T>>,
): Promise<T[]> {
  const found = new Map<string, T>();
  for (let offset = 0; ; ) {
    const { data, meta } = await page({ limit: PAGE, offset });
    const before = found.size;
    for (const entity of data) found.set(entity.id, entity);
    offset += data.length;
    // Servers have a greatest offset, and answer the last page for ever.
    if (offset >= meta.pagination.totalCount || found.size === before) return [...found.values()];
  }
}
