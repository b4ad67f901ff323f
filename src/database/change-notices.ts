/** How other processes learn of changes: the counts of changes, and the channels of PostgreSQL. */
import { isTopic, type Topic } from './topics.js'

/** The channel of PostgreSQL's NOTIFY. A payload is "TOPIC SESSION", with the `application_name` of the session. */
export const changeChannel = 'tidegate_changes'

/** The channel of notices about files. A payload is "SESSION TEXT". */
export const fileChannel = 'tidegate_files'

/** The numbers of changes in rows of `change_counts`. Topics of newer programs are omitted. */
export function countsOf(rows: readonly ChangeCount[]): ReadonlyMap<Topic, number> {
  return new Map(rows.flatMap(({ topic, count }) => (isTopic(topic) ? [[topic, Number(count)] as const] : [])))
}

export interface ChangeCount {
  readonly topic: string
  /** Text if the database driver does not support 64-bit integers. */
  readonly count: number | string
}
