/** Which events the page of the audit shows: the query of its address, so that other pages can link to it. */
import type { CallOptions } from '../api/client.ts'
import { EventKind, type EventResult } from '../api/schema.ts'
import type { Translation } from '../texts/texts.ts'

export type AuditQuery = NonNullable<CallOptions<'/api/admin/audit'>['query']>

/** The fields of the form, by their names in the address. Times are those of the place where the browser is. */
export const filterNames = ['user', 'path', 'kind', 'result', 'address', 'from', 'to'] as const
export type Filter = Readonly<Record<(typeof filterNames)[number], string>>

export const allKinds = Object.values(EventKind)

/** The kinds that can be chosen at once, by their name in the address. */
export const kindGroups: Readonly<Record<keyof Translation<'audit'>['audit']['groups'], readonly EventKind[]>> = {
  files: allKinds.slice(
    0,
    allKinds.findIndex((kind) => kind.startsWith('signin')),
  ),
  accounts: allKinds.filter((kind) => /^sign(in|out)/.test(kind)),
  shares: allKinds.filter((kind) => kind.startsWith('share.')),
  administration: allKinds.filter((kind) => kind.startsWith('admin.')),
  tasks: allKinds.filter((kind) => kind.startsWith('task.')),
}

/** The address of the page with this filter. */
export function auditAddress(filter: Partial<Filter>): string {
  const given = Object.entries(filter).filter(([, value]) => value !== '')
  const query = new URLSearchParams(given).toString()
  return query === '' ? '/@manage/audit' : `/@manage/audit?${query}`
}

export function filterIn(search: string): Filter {
  const given = new URLSearchParams(search)
  return Object.fromEntries(filterNames.map((name) => [name, given.get(name)?.trim() ?? ''])) as Filter
}

/** Whether all events match. */
export function isEmpty(filter: Filter): boolean {
  return filterNames.every((name) => filter[name] === '')
}

export function queryOf({ kind, result, from, to, ...texts }: Filter): AuditQuery {
  const kinds =
    kind in kindGroups ? kindGroups[kind as keyof typeof kindGroups] : allKinds.filter((each) => [kind].includes(each))
  const [start, end] = [timeOf(from), timeOf(to)]
  return {
    ...texts,
    ...(kind !== '' && { kind: [...kinds] }),
    ...(result !== '' && { result: result as `${EventResult}` }),
    ...(start !== undefined && { from: start }),
    ...(end !== undefined && { to: end }),
  }
}

function timeOf(local: string): string | undefined {
  const time = new Date(local)
  return Number.isNaN(+time) ? undefined : time.toISOString()
}
