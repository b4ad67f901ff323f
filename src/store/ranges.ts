/**
 * Trees of paths, without LIKE and so without escapes: whatever is below `/a` sorts from `/a/` up to `/a0`, because `0`
 * follows `/` in the order of bytes.
 */
import type { Knex } from 'knex'
import { GatewayError } from '../errors.js'
import { isWithin, type Path } from '../path.js'

/** A condition for `path` and everything below it. */
export function subtree(path: Path): Knex.QueryCallback {
  const below = path === '/' ? '/' : `${path}/`
  const beyond = `${below.slice(0, -1)}0`
  return (query) =>
    void query
      .where('path', path)
      .orWhere((range) => void range.where('path', '>=', below).andWhere('path', '<', beyond))
}

/** A value of `column` that lies at or below `from`, as it is called at or below `to`. */
export function renamed(query: Knex, column: string, from: Path, to: Path): Knex.Raw {
  return query.raw('cast(? as text) || substr(??, length(cast(? as text)) + 1)', [to, column, from])
}

/** Rejects with `invalid` where one of the trees holds the other. */
export function checkApart(from: Path, to: Path): void {
  if (isWithin(from, to) || isWithin(to, from)) {
    throw new GatewayError('invalid', { reason: 'one of the two lies inside the other', path: to })
  }
}
