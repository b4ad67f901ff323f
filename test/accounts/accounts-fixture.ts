/** Accounts over a new database, with a clock that tests can set. */
import { join } from 'node:path'
import type { TAP } from 'tap'
import { Accounts } from '../../src/accounts/accounts.js'
import { bootstrapAccounts } from '../../src/accounts/bootstrap.js'
import type { Credentials } from '../../src/accounts/password-check.js'
import { staticHash } from '../../src/accounts/passwords.js'
import { allPermissions } from '../../src/accounts/principal.js'
import type { NewUser } from '../../src/accounts/users.js'
import { root } from '../../src/base/path.js'
import { sharedLimiters } from '../../src/accounts/limiter.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import { Settings } from '../../src/settings/settings.js'
import type { UserRow } from '../../src/database/tables/accounts.js'
import type { Store } from '../../src/database/tables.js'
import { openStore } from '../../src/database/store.js'
import { openNewStore } from '../database/new-store.js'
import { userRow } from '../database/store-rows.js'
import { fastHash } from '../first-run.js'

type Test = Pick<TAP, 'testdir' | 'teardown'>

interface Fixture {
  readonly file: string
  readonly store: Store
  readonly settings: Settings
  readonly accounts: Accounts
  readonly clock: { time: number }
  /** The facts of each warning. */
  readonly warnings: readonly object[]
  readonly ada: UserRow
  readonly admin: UserRow
}

export const adaPassword = 'correct horse'

export const newUser = (fields: Partial<NewUser>): NewUser => ({
  username: 'ada',
  password: adaPassword,
  basePath: '/',
  role: 'general',
  permission: 0xff,
  disabled: false,
  ssoId: '',
  ...fields,
})

let address = 0
/** Credentials of ada. The address defaults to one that no other call has used. */
export const credentials = (fields: Partial<Credentials> & { readonly plain?: string } = {}): Credentials => {
  const { plain = adaPassword, ...rest } = fields
  address++
  return { username: 'ada', password: { plain }, address: `10.0.${address >> 8}.${address & 255}`, ...rest }
}

const asked = <T>(read: () => Promise<T>): Promise<T> => read()

/** Accounts over the same database, as another process opens it. `isNode`: it asks for what others have just stored. */
export async function openAccounts(
  t: Test,
  file: string,
  clock: { time: number },
  isNode = false,
): Promise<Pick<Fixture, 'store' | 'settings' | 'accounts' | 'warnings'>> {
  const store = await openStore(file)
  const settings = await Settings.open(store, coreSettings)
  const warnings: object[] = []
  const log = { warn: (facts: object) => void warnings.push(facts) }
  const nodes = { assertCurrent: () => undefined, ofOthers: asked, limiters: sharedLimiters(store.signIns) }
  const cluster = store.shared || isNode ? nodes : undefined
  const accounts = await Accounts.open({ store, settings, tokenHours: 48, log, now: () => clock.time, cluster })
  t.teardown(async () => {
    await accounts.close()
    await store.close()
  })
  return { store, settings, accounts, warnings }
}

/** Whoever asks what a sign-in costs, or what happens while it is checked, passes `hashPassword`. */
export async function fixture(
  t: Test,
  hash: (staticHash: string) => string | Promise<string> = fastHash,
): Promise<Fixture> {
  const file = join(t.testdir(), 'tidegate.db')
  const clock = { time: Date.now() }
  const first = await openNewStore(file)
  const { password, ...fields } = newUser({})
  const [passwordHash, adminHash] = [await hash(staticHash(password)), await hash(staticHash('admin password'))]
  await first.users.insert(
    userRow({ username: 'admin', role: 'admin', permission: allPermissions, passwordHash: adminHash }),
  )
  await bootstrapAccounts(first, {})
  await first.users.insert(userRow({ ...fields, basePath: root, allowFrom: [], expires: undefined, passwordHash }))
  await first.close()
  const opened = await openAccounts(t, file, clock)
  const ada = opened.accounts.users.byName('ada')
  if (ada === undefined) throw new Error('ada is missing')
  const admin = opened.accounts.users.byUniqueRole('admin')
  if (admin === undefined) throw new Error('no admin was made')
  return { ...opened, file, clock, ada, admin }
}
