/** `page` and `per_page` of lists: pages count from 1; less than 1 per page means everything. */
export interface Paging {
  readonly page: number
  readonly per_page: number
}

export interface Slice {
  readonly offset: number
  /** Absent: to the end. */
  readonly limit?: number
}

/** The part of a list that is asked for. Everything is one page: there is nothing on the second. */
export function sliceOf({ page, per_page: perPage }: Paging): Slice {
  const number = Math.max(1, page)
  if (perPage < 1) return number === 1 ? { offset: 0 } : { offset: 0, limit: 0 }
  return { offset: Math.min((number - 1) * perPage, Number.MAX_SAFE_INTEGER), limit: perPage }
}

export function pageOf<T>(items: readonly T[], paging: Paging): T[] {
  const { offset, limit } = sliceOf(paging)
  return items.slice(offset, limit === undefined ? undefined : offset + limit)
}
