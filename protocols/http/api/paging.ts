/** Pagination of lists. Pages count from 1. If `per_page` is less than 1, page 1 contains all items. */
interface Paging {
  readonly page: number
  readonly per_page: number
}

interface Slice {
  readonly offset: number
  /** Maximum number of items. Absent: no limit. */
  readonly limit?: number
}

/** The range of items on a page. A `page` less than 1 is page 1. */
export function sliceOf({ page, per_page: perPage }: Paging): Slice {
  const number = Math.max(1, page)
  if (perPage < 1) return number === 1 ? { offset: 0 } : { offset: 0, limit: 0 }
  return { offset: Math.min((number - 1) * perPage, Number.MAX_SAFE_INTEGER), limit: perPage }
}

/** The items on a page. */
export function pageOf<T>(items: readonly T[], paging: Paging): T[] {
  const { offset, limit } = sliceOf(paging)
  return items.slice(offset, limit === undefined ? undefined : offset + limit)
}
