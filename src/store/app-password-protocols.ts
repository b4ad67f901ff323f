/** The step of the schema that names the column of an app password's protocols as the API does. */
import type { Knex } from 'knex'

export async function renameAppPasswordProtocols(query: Knex): Promise<void> {
  await query.raw('alter table app_passwords rename column doors to protocols')
}
