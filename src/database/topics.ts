/** The topics by which processes notice the changes of other processes. */

/**
 * Rows that a component holds in memory, and reads again after another process has changed them. `accounts`: users, SSH
 * keys, app passwords, identities, console sessions and revoked tokens. `groups`: groups and their members.
 * `shares`: shares and their roots, not their visits. `tasks`: the requests to the owners of tasks, not the tasks.
 * `webhooks`: what is delivered where, not the deliveries.
 */
export type Topic = (typeof names)[number]

const names = [
  'accounts',
  'grants',
  'groups',
  'locks',
  'moves',
  'rules',
  'settings',
  'shares',
  'storages',
  'tasks',
  'webhooks',
] as const

export const topics: ReadonlySet<Topic> = new Set(names)

export function isTopic(text: string): text is Topic {
  return (topics as ReadonlySet<string>).has(text)
}
