/** What errors of databases are translated to. */
import t from 'tap'
import { isConnectionError, toStoreError } from '../../src/database/errors.js'

void t.test('a connection that is lost is unavailable, with and without the statement in the message', async (t) => {
  for (const text of ['Connection terminated', 'Connection terminated unexpectedly']) {
    for (const message of [text, `select * from "intents" where "id" = $1 - ${text}`]) {
      const error = new Error(message)
      t.ok(isConnectionError(error), message)
      t.match(toStoreError(error), { code: 'unavailable', retryAfter: 1, cause: error })
    }
  }
  const other = new Error(`select 'Connection terminated' - syntax error`)
  t.notOk(isConnectionError(other))
  t.match(toStoreError(other), { code: 'internal' })
})
