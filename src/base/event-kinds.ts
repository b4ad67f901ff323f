/** The names of events, as they are stored and as the API has them. */

/** `refused`: because of the request or the rights of who made it. `failed`: for any other reason. */
export type EventResult = 'done' | 'refused' | 'failed'

/** The closed list of kinds. Their names are stored, and part of the API. */
export const eventKinds = [
  'file.stored',
  'file.replaced',
  'folder.made',
  'link.made',
  'moved',
  'copied',
  'removed',
  'attributes.set',
  'locked',
  'unlocked',
  'read',
  'signin.ok',
  'signin.refused',
  'signin.unlocked',
  'signout',
  'share.made',
  'share.changed',
  'share.removed',
  'share.opened',
  'admin.setting',
  'admin.user',
  'admin.group',
  'admin.grant',
  'admin.storage',
  'admin.rule',
  'admin.key',
  'admin.app-password',
  'admin.webhook',
  'admin.other',
  'task.ended',
] as const
export type EventKind = (typeof eventKinds)[number]
