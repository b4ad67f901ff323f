/**
 * Conditions for subtrees of paths, without LIKE and its escapes: all paths below `/a` sort from `/a/` up to `/a0`,
 * because `0` follows `/` in byte order.
 */
import type { Knex } from 'knex'
import { GatewayError } from '../base/errors.js'
import { isWithin, type Path } from '../base/path.js'

/** A condition for `path` and everything below it in a column. */
export function subtree(path: Path, column = 'path'): Knex.QueryCallback {
  const below = path === '/' ? '/' : `${path}/`
  const beyond = `${below.slice(0, -1)}0`
  return (query) =>
    void query
      .where(column, path)
      .orWhere((range) => void range.where(column, '>=', below).andWhere(column, '<', beyond))
}

/** The value of `column`, a path at or below `from`, with the prefix `from` replaced by `to`. */
export function replacePrefix(query: Knex, column: string, from: Path, to: Path): Knex.Raw {
  return query.raw('cast(? as text) || substr(??, length(cast(? as text)) + 1)', [to, column, from])
}

/** Throws `invalid` if one of the subtrees contains the other. */
export function assertDisjoint(from: Path, to: Path): void {
  if (isWithin(from, to) || isWithin(to, from)) {
    throw new GatewayError('invalid', { reason: 'one path is inside the other', path: to })
  }
}
