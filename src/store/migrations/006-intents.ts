import type { Knex } from 'knex'

interface OldIntent {
  readonly kind: string
  readonly from_path: string
  readonly to_path: string
}

/**
 * Adds the storage to each intent, and makes its paths relative to that storage. Intents without a storage are deleted.
 */
export async function nameStoragesOfIntents(query: Knex): Promise<void> {
  const storages = await query<{ id: number; mount_path: string }>('storages').select('id', 'mount_path').orderBy('id')
  const old = await query<OldIntent>('intents').select('kind', 'from_path', 'to_path').orderBy('id')
  await query.schema.dropTable('intents')
  await query.schema.createTable('intents', (table) => {
    table.increments('id')
    table.integer('storage_id').notNullable().references('id').inTable('storages').onDelete('CASCADE').index()
    table.text('kind').notNullable()
    table.text('from_path').notNullable()
    table.text('to_path').notNullable()
    table.boolean('spare').notNullable()
  })
  const mounts = storages.map(({ id, mount_path }) => ({ id, at: visible(mount_path) }))
  // The longest mount path first, as in path lookup. Disabled storages count: they may have been enabled when the
  // intent was written.
  mounts.sort((one, other) => other.at.length - one.at.length)
  for (const { kind, from_path, to_path } of old) {
    const mount = mounts.find(({ at }) => from_path.startsWith(`${at}/`) && to_path.startsWith(`${at}/`))
    if (!mount) continue
    const inner = (path: string) => path.slice(mount.at.length)
    await query('intents').insert({
      storage_id: mount.id,
      kind,
      from_path: inner(from_path),
      to_path: inner(to_path),
      spare: false,
    })
  }
}

/** The mount path without the `.balance` suffix of storages that share a path; '' for the root. */
function visible(mountPath: string): string {
  const at = mountPath.lastIndexOf('.balance')
  const path = at > mountPath.lastIndexOf('/') + 1 ? mountPath.slice(0, at) : mountPath
  return path === '/' ? '' : path
}
