/** Storages that show at another path what a grant denies, by the options of the storages alone. */
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import { asPath } from '../../src/base/path.js'
import type { Right } from '../../src/base/rights.js'
import { newStorage } from '../../src/database/new-storage.js'
import { shownElsewhere } from '../../src/tree/denied-elsewhere.js'
import { Grants } from '../../src/tree/grants.js'
import type { Store } from '../../src/database/tables.js'
import { grantRow } from '../database/store-rows.js'

type Storage = readonly [mountPath: string, driver: string, options: object, disabled?: true]
/** The grants of group 1 by path: what is denied; what begins with + is allowed. */
type GrantTable = Readonly<Record<string, string>>

async function placesOf(storages: readonly Storage[], table: GrantTable): Promise<readonly string[]> {
  const rows = storages.map(([mountPath, driver, options, disabled = false], index) => ({
    ...newStorage({ mountPath: asPath(mountPath), driver, addition: JSON.stringify(options) }),
    disabled,
    id: index + 1,
  }))
  const grants = await grantsOf(table)
  return [...shownElsewhere(grants.list(), grants, rows, driverTypes)].map(
    ({ grant, path, mountPoint }) => `${grant.path} at ${path} by ${mountPoint}`,
  )
}

function grantsOf(table: GrantTable): Promise<Grants> {
  const rows = Object.entries(table).map(([path, word], index) => {
    const [allow, deny] = word.startsWith('+') ? [[word.slice(1) as Right], []] : [[], [word as Right]]
    return { ...grantRow({ userId: undefined, groupId: 1, path: asPath(path), allow, deny }), id: index + 1 }
  })
  return Grants.load({ grants: { all: async () => rows } } as unknown as Pick<Store, 'grants'>)
}

const local = (path: string) => ({ root_folder_path: path })
const server = { root_folder_path: '/', username: 'ann', password: 'secret' }
const shut = { '/shut': 'see' }

const rows: readonly (readonly [
  title: string,
  storages: readonly Storage[],
  grants: GrantTable,
  ...found: string[],
])[] = [
  ['nothing', [['/', 'Local', local('/srv')]], shut],
  ['an Alias above', [['/all', 'Alias', { paths: '/' }]], shut, '/shut at /all/shut by /all'],
  ['an Alias at the path', [['/x', 'Alias', { paths: '/shut' }]], shut, '/shut at /x by /x'],
  ['an Alias below', [['/x', 'Alias', { paths: '/shut/in' }]], shut, '/shut at /x by /x'],
  ['an Alias of names', [['/x', 'Alias', { paths: 'one:/open\ntwo:/' }]], shut, '/shut at /x/two/shut by /x'],
  ['an Alias beside', [['/x', 'Alias', { paths: '/open' }]], shut],
  ['an Alias that is denied too', [['/shut/x', 'Alias', { paths: '/' }]], shut],
  ['a disabled Alias', [['/x', 'Alias', { paths: '/' }, true]], shut],
  ['options that cannot be read', [['/x', 'Alias', { paths: 7 }]], shut],
  [
    'an Alias of an Alias',
    [
      ['/x', 'Alias', { paths: '/shut' }],
      ['/y', 'Alias', { paths: '/x' }],
    ],
    shut,
    '/shut at /x by /x',
    '/shut at /y by /y',
  ],
  ['a Crypt', [['/plain', 'Crypt', { remote_path: '/', password: 'x' }]], shut, '/shut at /plain by /plain'],
  [
    'a second mount of the same folder',
    [
      ['/shut', 'Local', local('/srv/a')],
      ['/open', 'Local', local('/srv/a/')],
    ],
    shut,
    '/shut at /open by /open',
  ],
  [
    'a mount of the folder above, and of one below',
    [
      ['/one', 'Local', local('/srv/a')],
      ['/two', 'Local', local('/srv')],
      ['/three', 'Local', local('/srv/a/shut/in')],
      ['/four', 'Local', local('/srv/b')],
    ],
    { '/one/shut': 'read' },
    '/one/shut at /two/a/shut by /two',
    '/one/shut at /three by /three',
  ],
  [
    'the same folder of another server',
    [
      ['/shut', 'WebDav', { ...server, address: 'https://one.example' }],
      ['/open', 'WebDav', { ...server, address: 'https://two.example' }],
    ],
    shut,
  ],
  [
    'the same folder of one server',
    [
      ['/shut', 'WebDav', { ...server, address: 'https://one.example' }],
      ['/open', 'WebDav', { ...server, address: 'https://one.example', tls_insecure_skip_verify: true }],
    ],
    shut,
    '/shut at /open by /open',
  ],
  [
    'the mount that shares the mount point',
    [
      ['/shut', 'Local', local('/srv/a')],
      ['/shut.balance1', 'Local', local('/srv/a')],
    ],
    shut,
  ],
  ['a place where the same is denied', [['/x', 'Alias', { paths: '/' }]], { ...shut, '/x/shut': 'see' }],
  ['a place that is denied as a whole', [['/x', 'Alias', { paths: '/' }]], { '/shut': 'read', '/x': 'see' }],
  ['a place that is allowed on purpose', [['/x', 'Alias', { paths: '/' }]], { ...shut, '/x/shut': '+read' }],
  [
    'a place below what is allowed',
    [['/x', 'Alias', { paths: '/' }]],
    { ...shut, '/x': '+read' },
    '/shut at /x/shut by /x',
  ],
  ['no denial', [['/x', 'Alias', { paths: '/' }]], { '/shut': '+read' }],
]

for (const [title, storages, grants, ...found] of rows) {
  void t.test(title, async (t) => {
    t.same(await placesOf(storages, grants), found)
  })
}
