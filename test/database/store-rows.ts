/** Rows for tests of the store. */
import { asPath, root } from '../../src/base/path.js'
import type { UserRow } from '../../src/database/tables/accounts.js'
import type { Grant } from '../../src/database/tables/grants.js'
import type { GroupRow } from '../../src/database/tables/groups.js'
import type { FolderRule } from '../../src/database/tables/rules.js'
import type { ShareRow } from '../../src/database/tables/shares.js'
import type { StorageRow } from '../../src/database/tables/storages.js'
import type { TaskRow } from '../../src/database/tables/tasks.js'
import type { IdentityRow } from '../../src/database/identities.js'
import type { PasskeyRow } from '../../src/database/passkeys.js'
import { newShare } from '../../src/shares/share-fields.js'

export function userRow(fields: Partial<UserRow>): Omit<UserRow, 'id'> {
  return {
    username: 'somebody',
    passwordHash: '',
    passwordTime: 0,
    basePath: root,
    role: 'general',
    permission: 0,
    disabled: false,
    ssoId: '',
    otpSecret: '',
    grantedOnly: false,
    allowFrom: [],
    expires: undefined,
    ...fields,
  }
}

export function identityRow(fields: Partial<IdentityRow>): Omit<IdentityRow, 'id'> {
  const times = { linked: new Date(0), lastUsed: new Date(0), checked: new Date(0) }
  const account = { issuer: 'https://idp.test', subject: 'one', name: 'Ada' }
  return { userId: 1, kind: 'oidc', ...account, provisioned: false, ...times, ...fields }
}

export function passkeyRow(fields: Partial<PasskeyRow>): Omit<PasskeyRow, 'id'> {
  return {
    userId: 1,
    credentialId: 'AQID',
    publicKey: Buffer.from([1, 2, 3]),
    counter: 0,
    backupEligible: false,
    transports: ['internal'],
    aaguid: '00000000-0000-0000-0000-000000000000',
    name: 'phone',
    created: new Date(0),
    lastUsed: undefined,
    ...fields,
  }
}

export function storageRow(fields: Partial<StorageRow>): Omit<StorageRow, 'id'> {
  return {
    mountPath: root,
    order: 0,
    driver: 'memory',
    cacheExpiration: 30,
    customCachePolicies: '',
    status: '',
    addition: '{}',
    remark: '',
    modified: new Date(0),
    disabled: false,
    disableIndex: false,
    enableSign: false,
    orderBy: '',
    orderDirection: '',
    extractFolder: '',
    webProxy: false,
    webdavPolicy: 'native_proxy',
    proxyRange: false,
    downProxyUrl: '',
    disableProxySign: false,
    ...fields,
  }
}

export function ruleRow(fields: Partial<FolderRule>): Omit<FolderRule, 'id'> {
  return {
    path: asPath('/'),
    password: '',
    passwordSub: false,
    write: false,
    writeSub: false,
    hide: '',
    hideSub: false,
    readme: '',
    readmeSub: false,
    header: '',
    headerSub: false,
    readUsers: [],
    readUsersSub: false,
    writeUsers: [],
    writeUsersSub: false,
    ...fields,
  }
}

export function groupRow(fields: Partial<GroupRow>): Omit<GroupRow, 'id'> {
  const flags = { requireTwoStep: false, requireProvider: false, providedAdmins: false }
  return { name: 'staff', description: '', permission: 0, admin: false, ...flags, ...fields }
}

/** `userId` or `groupId` has to be given. */
export function grantRow(fields: Partial<Grant>): Omit<Grant, 'id'> {
  return { userId: undefined, groupId: undefined, path: root, allow: [], deny: [], ...fields }
}

/** `creatorId` has to be that of a user. */
export function shareRow(fields: Partial<ShareRow>): ShareRow {
  return {
    ...newShare,
    id: 'share',
    creatorId: 1,
    created: new Date(0),
    ...fields,
  }
}

/** A task that runs. */
export function taskRow(fields: Partial<TaskRow> & Pick<TaskRow, 'id'>): TaskRow {
  return {
    kind: 'copy',
    subject: '',
    userId: 1,
    username: 'ada',
    role: 'general',
    state: 'running',
    status: '',
    error: '',
    totalBytes: 0,
    doneBytes: 0,
    phase: undefined,
    plan: '{}',
    tries: 1,
    created: new Date(0),
    started: undefined,
    ended: undefined,
    ...fields,
  }
}
