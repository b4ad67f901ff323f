/**
 * Who may call what, as a table: each endpoint has a row with the response code for each kind of caller and a valid
 * request. The rows are written by hand, independently of the declarations.
 */
import jwt from 'jsonwebtoken'
import t from 'tap'
import { documentedEndpoints } from '../../../protocols/http/endpoints.js'
import type { Permission } from '../../../src/accounts/principal.js'
import { asPath } from '../../../src/base/path.js'
import type { ShareMode } from '../../../src/base/rights.js'
import type { Gateway } from '../../../src/gateway/gateway.js'
import { moveClock } from '../../moved-clock.js'
import { shareRow } from '../../database/store-rows.js'
import { keyLine } from './key-line.js'
import { Served, serve } from './served.js'

/** Callers, in the order of the codes in a row. */
const callers = ['nobody', 'guest', 'plain', 'able', 'admin'] as const
type Caller = (typeof callers)[number]

/** Codes of envelopes, or HTTP statuses for endpoints without an envelope. */
type Codes = readonly [nobody: number, guest: number, plain: number, able: number, admin: number]

const everybody: Codes = [200, 200, 200, 200, 200]
/** Every account, also the guest's if it is enabled. */
const everyAccount: Codes = [401, 200, 200, 200, 200]
const ssoOff: Codes = [403, 403, 403, 403, 403]
const ownAccount: Codes = [401, 401, 200, 200, 200]
const ownProfile: Codes = [401, 403, 200, 200, 200]
/** The request is about what the admin has, and would be missing for others. */
const ofAnother: Codes = [401, 403, 404, 404, 200]
/** The request requires a permission. */
const permitted: Codes = [401, 403, 403, 200, 200]
const adminOnly: Codes = [401, 403, 403, 403, 200]
/** Passkeys are off. test/sign-in/ has them on. */
const passkeysOff: Codes = [403, 403, 403, 403, 403]
const ownPasskeysOff: Codes = [401, 401, 403, 403, 403]
/** There is no index: an admin gets the error about that. */
const noIndex: Codes = [401, 403, 403, 403, 404]

interface Call {
  /** Path and query; by default the path of the row. */
  readonly target?: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

interface Row {
  readonly codes: Codes
  /** Creates what the call needs, and returns the call. */
  readonly call?: (stage: Stage) => Call | Promise<Call>
}

/** The server, with functions that create what calls need. */
class Stage {
  #number = 0

  constructor(
    readonly gateway: Gateway,
    readonly username: string,
    readonly path: string,
  ) {}

  /** An unused name. */
  fresh(): string {
    this.#number += 1
    return `${this.username}-${this.path.replace(/[^a-z]+/g, '-')}-${this.#number}`
  }

  of(id: number, name = 'id'): Call {
    return { target: `${this.path}?${name}=${id}` }
  }

  /** The id of the user whom the admin endpoints change. */
  get somebody(): number {
    return this.gateway.accounts.users.byName('somebody')?.id ?? 0
  }

  /** The id of a new user. */
  async user(): Promise<number> {
    const { id } = await this.gateway.accounts.users.create({
      username: this.fresh(),
      password: 'password',
      basePath: '/',
      role: 'general',
      permission: 0,
      disabled: false,
      ssoId: '',
    })
    return id
  }

  async rule(): Promise<number> {
    const path = asPath(`/rules/${this.fresh()}`)
    const none = { password: '', hide: '', readme: '', header: '', readUsers: [], writeUsers: [] }
    const { id } = await this.gateway.rules.create({
      ...none,
      path,
      write: false,
      passwordSub: false,
      writeSub: false,
      hideSub: false,
      readmeSub: false,
      headerSub: false,
      readUsersSub: false,
      writeUsersSub: false,
    })
    return id
  }

  async webhook(): Promise<number> {
    const hook = { name: this.fresh(), url: 'http://nowhere.invalid/', kinds: [], paths: [], enabled: true }
    return (await this.gateway.webhooks.create(hook)).row.id
  }

  async group(): Promise<number> {
    const group = { name: this.fresh(), description: '', permission: 0, admin: false, members: [] }
    return (await this.gateway.accounts.groups.create(group)).id
  }

  /** The id of a new share of the admin. */
  async share(path: string, mode: ShareMode = 'read'): Promise<string> {
    const {
      id: _id,
      created: _created,
      ...fields
    } = shareRow({
      creatorId: this.gateway.accounts.users.byUniqueRole('admin')!.id,
      mode,
    })
    return (await this.gateway.shares.create('', fields, [asPath(path)])).id
  }

  async ofShare(): Promise<Call> {
    return { target: `${this.path}?id=${await this.share('/folder')}` }
  }

  async storage(disabled = false): Promise<{ readonly id: number; readonly mountPath: string }> {
    const [root] = this.gateway.storages.list()
    if (root === undefined) throw new Error('nothing is mounted')
    const { id: _id, ...like } = root
    return this.gateway.storages.create({ ...like, mountPath: `/mounts/${this.fresh()}`, disabled })
  }

  async appPassword(): Promise<number> {
    const { appPasswords } = this.gateway.accounts
    const { row } = await appPasswords.add(this.userId, { name: this.fresh(), protocols: ['sftp'], readOnly: false })
    return row.id
  }

  async consoleSession(): Promise<number> {
    const user = this.gateway.accounts.users.get(this.userId)!
    const { row } = await this.gateway.accounts.consoleSessions.open(user, { address: '127.0.0.1', userAgent: '' })
    return row.id
  }

  get userId(): number {
    const name = this.username === 'nobody' ? 'guest' : this.username
    return this.gateway.accounts.users.byName(name)?.id ?? 0
  }
}

const members = { src_dir: '/folder', dst_dir: '/other', names: ['file.txt'], overwrite: true }
const upload = { body: 'content', headers: { 'file-path': '/folder/upload.txt' } }
const form = '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\ncontent\r\n--x--\r\n'
const chunkedUpload = { headers: { 'file-path': '/folder/chunked.txt', 'x-file-size': '1' } }
/** There is no such upload. */
const noUpload: Row = {
  codes: [401, 404, 404, 404, 404],
  call: () => ({ headers: { 'x-upload-id': 'none', 'x-chunk-index': '0' } }),
}
const signature = ({ gateway }: Stage) => encodeURIComponent(gateway.signedUrls.sign(asPath('/folder/file.txt')))

/** There are no tasks: requests with a task id get that error. */
const taskRows: Record<string, Row> = {}
for (const [base, all, one] of [
  ['/api/task', ownProfile, [401, 403, 404, 404, 404]],
  ['/api/admin/task', adminOnly, [401, 403, 403, 403, 404]],
] as const) {
  const row = (verb: string, codes: Codes, target = `${base}/copy/${verb}`, body?: unknown): Row => ({
    codes,
    call: () => ({ target, body }),
  })
  taskRows[`get ${base}/count`] = { codes: all }
  for (const verb of ['undone', 'done']) taskRows[`get ${base}/{kind}/${verb}`] = row(verb, all)
  for (const verb of ['clear_done', 'clear_succeeded', 'retry_failed']) {
    taskRows[`post ${base}/{kind}/${verb}`] = row(verb, all)
  }
  for (const verb of ['info', 'cancel', 'delete', 'retry']) {
    taskRows[`post ${base}/{kind}/${verb}`] = row(verb, one, `${base}/copy/${verb}?tid=none`)
  }
  for (const verb of ['cancel_some', 'delete_some', 'retry_some']) {
    taskRows[`post ${base}/{kind}/${verb}`] = row(verb, all, undefined, ['none'])
  }
}

/** What begins and completes requests of passkeys, in shape. */
const begun = { session: 'A'.repeat(43) }
const credential = { id: 'AAAA', rawId: 'AAAA', type: 'public-key' }
const assertion = {
  ...credential,
  response: { clientDataJSON: 'e30', authenticatorData: 'AAAA', signature: 'AAAA' },
}
const attestation = { ...credential, response: { clientDataJSON: 'e30', attestationObject: 'AAAA' } }

const table: Readonly<Record<string, Row>> = {
  'any /api/public/settings': { codes: everybody },
  'any /api/public/offline_download_tools': { codes: everybody },
  'any /api/public/archive_extensions': { codes: everybody },
  'get /api/openapi.json': { codes: everybody },
  'get /api/docs': { codes: everybody },
  'any /ping': { codes: everybody },
  'get /livez': { codes: everybody },
  'get /readyz': { codes: everybody },
  'get /robots.txt': { codes: everybody },
  // It requires the permanent token, which no caller has.
  'get /metrics': { codes: [401, 401, 401, 401, 401] },
  'get /manifest.json': { codes: everybody },
  'get /static/manifest.json': { codes: everybody },
  'get /favicon.ico': { codes: [302, 302, 302, 302, 302] },
  'get /d/{path}': {
    codes: everybody,
    call: (stage) => ({ target: `/d/folder/file.txt?sign=${signature(stage)}` }),
  },
  'get /p/{path}': {
    codes: everybody,
    call: (stage) => ({ target: `/p/folder/file.txt?sign=${signature(stage)}` }),
  },

  'get /sd/{id}': {
    codes: everybody,
    call: async (stage) => ({ target: `/sd/${await stage.share('/folder/file.txt')}` }),
  },
  'get /sd/{id}/{path}': {
    codes: everybody,
    call: async (stage) => ({ target: `/sd/${await stage.share('/folder')}/file.txt` }),
  },
  'put /sd/{id}/{path}': {
    codes: [201, 201, 201, 201, 201],
    call: async (stage) => ({ target: `/sd/${await stage.share('/folder', 'upload')}/uploaded`, body: 'content' }),
  },
  'post /sd/{id}': {
    codes: [201, 201, 201, 201, 201],
    call: async (stage) => ({
      target: `/sd/${await stage.share('/folder', 'upload')}`,
      body: '--x\r\nContent-Disposition: form-data; name="file"; filename="uploaded"\r\n\r\ncontent\r\n--x--\r\n',
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
    }),
  },

  'post /api/auth/login': { codes: everybody, call: () => ({ body: { username: 'somebody', password: 'password' } }) },
  'post /api/auth/login/hash': {
    codes: everybody,
    call: () => ({
      body: { username: 'somebody', password: '0ee0be47182acad90a4307dd35cc06d901875e870b2637955a1188637ee56675' },
    }),
  },
  // Not enabled.
  'post /api/auth/login/ldap': {
    codes: [403, 403, 403, 403, 403],
    call: () => ({ body: { username: 'somebody', password: 'password' } }),
  },
  'post /api/auth/session': {
    codes: everybody,
    call: () => ({ body: { username: 'somebody', password: 'password' } }),
  },
  // No caller has the cookie of a session of the console.
  'post /api/auth/session/confirm': { codes: [401, 401, 400, 400, 400], call: () => ({ body: { password: 'x' } }) },
  'get /api/authn/webauthn_begin_login': { codes: passkeysOff },
  'post /api/authn/webauthn_finish_login': { codes: passkeysOff, call: () => ({ body: assertion, headers: begun }) },
  'post /api/auth/session/passkey': {
    codes: passkeysOff,
    call: () => ({ body: { ...begun, credential: assertion } }),
  },
  'get /api/auth/session/confirm/passkey/begin': { codes: ownPasskeysOff },
  'post /api/auth/session/confirm/passkey': {
    codes: ownPasskeysOff,
    call: () => ({ body: { ...begun, credential: assertion } }),
  },
  'get /api/authn/webauthn_begin_registration': { codes: ownPasskeysOff },
  'post /api/authn/webauthn_finish_registration': {
    codes: ownPasskeysOff,
    call: () => ({ body: attestation, headers: begun }),
  },
  'get /api/authn/getcredentials': { codes: ownAccount },
  'post /api/authn/delete_authn': { codes: ownAccount, call: () => ({ body: { id: 'AAAA' } }) },
  'post /api/authn/rename_authn': {
    codes: [401, 401, 404, 404, 404],
    call: () => ({ body: { id: 'AAAA', name: 'phone' } }),
  },
  'get /api/auth/logout': { codes: everybody },
  // Single sign-on is off.
  'get /api/auth/sso': { codes: ssoOff, call: () => ({ target: '/api/auth/sso?method=sso_get_token' }) },
  'get /api/auth/sso_callback': { codes: ssoOff, call: () => ({ target: '/api/auth/sso_callback?code=x&state=x' }) },
  'get /api/auth/sso_get_token': { codes: ssoOff, call: () => ({ target: '/api/auth/sso_get_token?code=x&state=x' }) },
  'get /api/auth/get_sso_id': { codes: ssoOff, call: () => ({ target: '/api/auth/get_sso_id?code=x&state=x' }) },
  // Nothing was begun.
  'post /api/auth/sso_code': {
    codes: [400, 400, 400, 400, 400],
    call: () => ({ body: { secret: 'x', otp_code: '000000' } }),
  },
  // Single sign-on is off, and tokens are no sessions of the console.
  'post /api/auth/sso_link': {
    codes: [403, 403, 403, 403, 403],
    call: () => ({ body: { redirect: '/', otp_code: '000000' } }),
  },
  'get /api/auth/sso_logout': { codes: [302, 302, 302, 302, 302] },
  'post /api/auth/sso_backchannel_logout': {
    codes: [400, 400, 400, 400, 400],
    call: () => ({ body: { logout_token: 'x' } }),
  },
  'post /api/auth/2fa/generate': { codes: ownProfile },
  // The code is wrong, so that two-step verification is not enabled for the rest of this test.
  'post /api/auth/2fa/verify': {
    codes: [401, 403, 400, 400, 400],
    call: () => ({ body: { code: '000000', secret: 'JBSWY3DPEHPK3PXP' } }),
  },
  // An account without two-step verification gets no recovery codes.
  'post /api/auth/2fa/recovery_codes': {
    codes: [401, 403, 400, 400, 400],
    call: () => ({ body: { password: 'password' } }),
  },
  'get /api/me/recovery_codes': { codes: ownAccount },

  'get /api/me': { codes: everyAccount },
  'post /api/me/update': { codes: ownProfile, call: ({ username }) => ({ body: { username } }) },
  'get /api/me/sshkey/list': { codes: ownAccount },
  'post /api/me/sshkey/add': {
    codes: ownAccount,
    call: (stage) => ({ body: { title: stage.fresh(), key: keyLine() } }),
  },
  'post /api/me/sshkey/delete': {
    codes: ownAccount,
    call: async (stage) => stage.of((await stage.gateway.accounts.keys.add(stage.userId, stage.fresh(), keyLine())).id),
  },
  'get /api/me/app_password/list': { codes: ownAccount },
  'post /api/me/app_password/add': { codes: ownAccount, call: (stage) => ({ body: { name: stage.fresh() } }) },
  'post /api/me/app_password/delete': {
    codes: ownAccount,
    call: async (stage) => stage.of(await stage.appPassword()),
  },
  'get /api/me/access': { codes: everyAccount },
  'get /api/me/identities': { codes: ownAccount },
  'post /api/me/identities/delete': {
    codes: ownAccount,
    call: async (stage) => {
      const { identities } = stage.gateway.accounts
      const shown = { kind: 'oidc', issuer: 'https://idp.test', subject: stage.fresh(), name: 'x' } as const
      return stage.of((await identities.link(stage.userId, shown)).id)
    },
  },
  'get /api/me/session/list': { codes: ownAccount },
  'post /api/me/session/delete': {
    codes: ownAccount,
    call: async (stage) => stage.of(await stage.consoleSession()),
  },
  // It also revokes the token of the request: the next requests need another one.
  'post /api/me/session/delete_all': { codes: ownAccount },

  'any /api/fs/list': { codes: everyAccount, call: () => ({ body: { path: '/folder' } }) },
  'any /api/fs/get': { codes: everyAccount, call: () => ({ body: { path: '/folder/file.txt' } }) },
  'post /api/fs/history': { codes: ownAccount, call: () => ({ body: { path: '/folder/file.txt' } }) },
  'any /api/fs/dirs': { codes: everyAccount, call: () => ({ body: { path: '/' } }) },
  // There is no index: authorized callers get the error about that.
  'any /api/fs/search': {
    codes: [401, 404, 404, 404, 404],
    call: () => ({ body: { parent: '/', keywords: 'file', page: 1, per_page: 10 } }),
  },
  'post /api/fs/mkdir': { codes: permitted, call: () => ({ body: { path: '/folder/new' } }) },
  'post /api/fs/rename': {
    codes: permitted,
    call: () => ({ body: { path: '/folder/file.txt', name: 'renamed.txt', overwrite: true } }),
  },
  'post /api/fs/move': { codes: permitted, call: () => ({ body: members }) },
  'post /api/fs/copy': { codes: permitted, call: () => ({ body: members }) },
  'post /api/fs/remove': { codes: permitted, call: () => ({ body: { dir: '/folder', names: ['file.txt'] } }) },
  'post /api/fs/batch_rename': {
    codes: permitted,
    call: (stage) => ({
      body: { src_dir: '/folder', rename_objects: [{ src_name: 'file.txt', new_name: stage.fresh() }] },
    }),
  },
  'post /api/fs/regex_rename': {
    codes: permitted,
    call: (stage) => ({ body: { src_dir: '/folder', src_name_regex: '^file.txt$', new_name_regex: stage.fresh() } }),
  },
  'post /api/fs/recursive_move': {
    codes: permitted,
    call: () => ({ body: { src_dir: '/folder', dst_dir: '/other', conflict_policy: 'skip' } }),
  },
  'post /api/fs/remove_empty_directory': { codes: permitted, call: () => ({ body: { src_dir: '/other' } }) },
  'post /api/fs/share_link': { codes: everyAccount, call: () => ({ body: { path: '/folder/file.txt' } }) },
  'post /api/fs/link': { codes: adminOnly, call: () => ({ body: { path: '/folder/file.txt' } }) },
  'any /api/fs/zip': { codes: everyAccount, call: () => ({ body: { path: '/folder' } }) },
  'post /api/fs/zip_link': { codes: everyAccount, call: () => ({ body: { path: '/folder' } }) },
  'post /api/fs/add_offline_download': {
    codes: permitted,
    call: () => ({ body: { urls: ['http://nowhere.invalid/file'], path: '/folder', tool: 'SimpleHttp' } }),
  },
  'put /api/fs/put': { codes: permitted, call: () => upload },
  'put /api/fs/form': {
    codes: permitted,
    call: () => ({ body: form, headers: { ...upload.headers, 'content-type': 'multipart/form-data; boundary=x' } }),
  },
  'post /api/fs/multipart/init': { codes: permitted, call: () => chunkedUpload },
  'put /api/fs/multipart/chunk': noUpload,
  'post /api/fs/multipart/complete': noUpload,
  'get /api/fs/multipart/status': { ...noUpload, call: () => ({ target: '/api/fs/multipart/status?upload_id=none' }) },
  'post /api/fs/multipart/abort': noUpload,

  ...taskRows,

  'any /api/share/list': { codes: ownProfile },
  // Shares of somebody else are missing, except for an admin.
  'get /api/share/get': { codes: ofAnother, call: async (stage) => stage.ofShare() },
  'post /api/share/create': { codes: permitted, call: () => ({ body: { files: ['/folder/file.txt'] } }) },
  'post /api/share/update': {
    codes: ofAnother,
    call: async (stage) => ({ body: { id: await stage.share('/folder'), files: ['/folder'] } }),
  },
  'post /api/share/enable': { codes: ofAnother, call: async (stage) => stage.ofShare() },
  'post /api/share/disable': { codes: ofAnother, call: async (stage) => stage.ofShare() },
  'post /api/share/delete': { codes: ofAnother, call: async (stage) => stage.ofShare() },

  'get /api/admin/user/list': { codes: adminOnly },
  'get /api/admin/user/get': { codes: adminOnly, call: (stage) => stage.of(stage.somebody) },
  'post /api/admin/user/create': {
    codes: adminOnly,
    call: (stage) => ({ body: { username: stage.fresh(), password: 'x' } }),
  },
  'post /api/admin/user/update': {
    codes: adminOnly,
    call: ({ somebody: id }) => ({ body: { id, username: 'somebody' } }),
  },
  'post /api/admin/user/delete': { codes: adminOnly, call: async (stage) => stage.of(await stage.user()) },
  'get /api/admin/user/passkey/list': { codes: adminOnly, call: (stage) => stage.of(stage.somebody, 'uid') },
  'post /api/admin/user/passkey/delete': {
    codes: adminOnly,
    call: (stage) => ({ ...stage.of(stage.somebody, 'uid'), body: { id: 'AAAA' } }),
  },
  'get /api/admin/user/identity/list': { codes: adminOnly, call: (stage) => stage.of(stage.somebody, 'uid') },
  'post /api/admin/user/identity/delete': {
    codes: adminOnly,
    call: async (stage) => {
      const { identities } = stage.gateway.accounts
      const shown = { kind: 'oidc', issuer: 'https://idp.test', subject: stage.fresh(), name: 'x' } as const
      const { id } = await identities.link(stage.somebody, shown)
      return { ...stage.of(stage.somebody, 'uid'), body: { id } }
    },
  },
  'post /api/admin/user/cancel_2fa': { codes: adminOnly, call: (stage) => stage.of(stage.somebody) },
  'post /api/admin/user/del_cache': { codes: adminOnly, call: ({ path }) => ({ target: `${path}?username=somebody` }) },
  'post /api/admin/user/link_ldap': {
    codes: [401, 403, 403, 403, 403],
    call: (stage) => ({ body: { id: stage.somebody, name: 'somebody' } }),
  },
  'get /api/admin/user/sshkey/list': {
    codes: adminOnly,
    call: (stage) => stage.of(stage.somebody, 'uid'),
  },
  'post /api/admin/user/sshkey/delete': { codes: adminOnly, call: (stage) => stage.of(99999) },
  'get /api/admin/user/app_password/list': {
    codes: adminOnly,
    call: (stage) => stage.of(stage.somebody, 'uid'),
  },
  'post /api/admin/user/app_password/delete': { codes: adminOnly, call: (stage) => stage.of(99999) },

  'get /api/admin/group/list': { codes: adminOnly },
  'get /api/admin/group/get': { codes: adminOnly, call: async (stage) => stage.of(await stage.group()) },
  'post /api/admin/group/create': { codes: adminOnly, call: (stage) => ({ body: { name: stage.fresh() } }) },
  'post /api/admin/group/update': {
    codes: adminOnly,
    call: async (stage) => ({ body: { id: await stage.group(), members: [stage.somebody], permission: 8 } }),
  },
  'post /api/admin/explain': {
    codes: adminOnly,
    call: () => ({ body: { username: 'admin', path: '/', right: 'see', protocol: 'http' } }),
  },
  'post /api/admin/group/delete': { codes: adminOnly, call: async (stage) => stage.of(await stage.group()) },

  'get /api/admin/webhook/list': { codes: adminOnly },
  'post /api/admin/webhook/create': {
    codes: adminOnly,
    call: (stage) => ({ body: { name: stage.fresh(), url: 'http://nowhere.invalid/' } }),
  },
  'post /api/admin/webhook/update': {
    codes: adminOnly,
    call: async (stage) => ({ body: { id: await stage.webhook(), enabled: false } }),
  },
  'post /api/admin/webhook/delete': { codes: adminOnly, call: async (stage) => stage.of(await stage.webhook()) },
  'post /api/admin/webhook/rotate': { codes: adminOnly, call: async (stage) => stage.of(await stage.webhook()) },
  'post /api/admin/webhook/test': { codes: adminOnly, call: async (stage) => stage.of(await stage.webhook()) },
  'get /api/admin/webhook/deliveries': { codes: adminOnly, call: async (stage) => stage.of(await stage.webhook()) },
  'post /api/admin/webhook/replay': {
    codes: adminOnly,
    call: async (stage) => ({ body: { id: await stage.webhook() } }),
  },

  'get /api/admin/meta/list': { codes: adminOnly },
  'get /api/admin/meta/get': { codes: adminOnly, call: async (stage) => stage.of(await stage.rule()) },
  'post /api/admin/meta/create': { codes: adminOnly, call: (stage) => ({ body: { path: `/rules/${stage.fresh()}` } }) },
  'post /api/admin/meta/update': {
    codes: adminOnly,
    call: async (stage) => ({ body: { id: await stage.rule(), path: `/rules/${stage.fresh()}` } }),
  },
  'post /api/admin/meta/delete': { codes: adminOnly, call: async (stage) => stage.of(await stage.rule()) },

  // The installation has users of its own: the admin gets the error about that.
  'post /api/admin/import': {
    codes: [401, 403, 403, 403, 409],
    call: ({ path }) => ({
      target: `${path}?program=alist`,
      body: form,
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
    }),
  },
  'get /api/admin/about': { codes: adminOnly },
  'get /api/admin/log': { codes: adminOnly },
  'get /api/admin/nodes': { codes: adminOnly },
  'get /api/admin/audit': { codes: adminOnly },
  'get /api/admin/overview': { codes: adminOnly },
  'get /api/admin/sign-ins': { codes: adminOnly },
  'post /api/admin/sign-ins/unlock': { codes: adminOnly, call: () => ({ body: { network: '192.0.2.7' } }) },

  'get /api/admin/lock/list': { codes: adminOnly },
  'post /api/admin/lock/break': {
    codes: [401, 403, 403, 403, 404],
    call: ({ path }) => ({ target: `${path}?token=urn:uuid:none` }),
  },

  'post /api/admin/index/build': { codes: noIndex },
  'post /api/admin/index/update': { codes: noIndex, call: () => ({ body: { paths: ['/'], max_depth: 1 } }) },
  'post /api/admin/index/stop': { codes: noIndex },
  'post /api/admin/index/clear': { codes: noIndex },
  'get /api/admin/index/progress': { codes: noIndex },

  'get /api/admin/connection/list': { codes: adminOnly },
  'post /api/admin/connection/end': { codes: noIndex, call: () => ({ body: { id: 'x' } }) },
  'get /api/admin/session/list': { codes: adminOnly },
  'post /api/admin/session/delete': { codes: noIndex, call: (stage) => stage.of(999_999) },

  'get /api/admin/storage/list': { codes: adminOnly },
  'get /api/admin/storage/get': { codes: adminOnly, call: async (stage) => stage.of((await stage.storage()).id) },
  'get /api/admin/storage/check': { codes: adminOnly, call: async (stage) => stage.of((await stage.storage()).id) },
  'post /api/admin/storage/try': {
    codes: adminOnly,
    call: (stage) => ({ body: { mount_path: `/mounts/${stage.fresh()}`, driver: 'Local' } }),
  },
  'post /api/admin/storage/qr_code': {
    codes: [401, 403, 403, 403, 500],
    call: () => ({ body: { driver: 'Local' } }),
  },
  'post /api/admin/storage/qr_answer': {
    codes: [401, 403, 403, 403, 500],
    call: () => ({ body: { driver: 'Local', ticket: 'x' } }),
  },
  'post /api/admin/storage/create': {
    codes: adminOnly,
    call: (stage) => ({ body: { mount_path: `/mounts/${stage.fresh()}`, driver: 'Local' } }),
  },
  'post /api/admin/storage/update': {
    codes: adminOnly,
    call: async (stage) => {
      const { id, mountPath } = await stage.storage()
      return { body: { id, mount_path: mountPath, driver: 'Local' } }
    },
  },
  'post /api/admin/storage/delete': { codes: adminOnly, call: async (stage) => stage.of((await stage.storage()).id) },
  'post /api/admin/storage/enable': {
    codes: adminOnly,
    call: async (stage) => stage.of((await stage.storage(true)).id),
  },
  'post /api/admin/storage/disable': { codes: adminOnly, call: async (stage) => stage.of((await stage.storage()).id) },
  'post /api/admin/storage/load_all': { codes: adminOnly },

  'get /api/admin/driver/list': { codes: adminOnly },
  'get /api/admin/driver/names': { codes: adminOnly },
  'get /api/admin/driver/info': { codes: adminOnly, call: ({ path }) => ({ target: `${path}?driver=Local` }) },

  'get /api/admin/setting/list': { codes: adminOnly },
  'post /api/admin/setting/default': { codes: adminOnly },
  'get /api/admin/setting/get': { codes: adminOnly, call: ({ path }) => ({ target: `${path}?key=site_title` }) },
  'post /api/admin/setting/save': { codes: adminOnly, call: () => ({ body: [{ key: 'site_title', value: 'Files' }] }) },
  'post /api/admin/setting/delete': {
    codes: adminOnly,
    call: async ({ gateway, path }) => {
      await gateway.settings.set(new Map([['unknown_key', 'x']]))
      return { target: `${path}?key=unknown_key` }
    },
  },
  'post /api/admin/setting/reset_token': { codes: adminOnly },
  'post /api/admin/setting/try_sso': { codes: adminOnly, call: () => ({ body: { settings: [] } }) },
  'post /api/admin/setting/try_ldap': { codes: adminOnly, call: () => ({ body: { settings: [] } }) },
  // Nothing answers there: the admin gets the error about that.
  'post /api/admin/setting/set_aria2': {
    codes: [401, 403, 403, 403, 500],
    call: () => ({ body: { uri: 'http://127.0.0.1:1/jsonrpc', secret: '' } }),
  },
  'post /api/admin/setting/set_qbit': {
    codes: [401, 403, 403, 403, 500],
    call: () => ({ body: { url: 'http://127.0.0.1:1/', seedtime: '0' } }),
  },
  // No such storage is mounted.
  'post /api/admin/setting/set_115': {
    codes: [401, 403, 403, 403, 500],
    call: () => ({ body: { temp_dir: '/nowhere' } }),
  },
  'post /api/admin/setting/set_115_open': {
    codes: [401, 403, 403, 403, 500],
    call: () => ({ body: { temp_dir: '/nowhere' } }),
  },
}

const names = documentedEndpoints.map(({ method, path }) => `${method} ${path}`)

void t.test('every endpoint has a row, and every row has an endpoint', async (t) => {
  for (const name of names) t.ok(name in table, `${name} has a row`)
  for (const name of Object.keys(table)) t.ok(names.includes(name), `${name} has an endpoint`)
})

/** The code of the envelope, or the HTTP status if there is no envelope. */
async function codeOf(
  url: string,
  name: string,
  authorization: string,
  { body, headers = {}, target }: Call,
): Promise<number> {
  const [method = '', path = ''] = name.split(' ')
  const sends = method === 'any' ? 'POST' : method.toUpperCase()
  const init: RequestInit = { method: sends, redirect: 'manual', headers: { authorization, ...headers } }
  if (sends !== 'GET') init.body = typeof body === 'string' ? body : JSON.stringify(body ?? {})
  const response = await fetch(url + (target ?? path), init)
  const text = await response.text()
  if (!text.startsWith('{"code":')) return response.status
  return (JSON.parse(text) as { code: number }).code
}

/** The rows after which a caller signs in again. */
const endsSession = ['get /api/auth/logout', 'post /api/me/session/delete_all']

const able: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove', 'offlineDownload', 'share']

async function stageFor(admin: Served, caller: Caller): Promise<string> {
  const { users } = admin.gateway.accounts
  if (caller === 'admin') return admin.token
  if (caller === 'nobody') return ''
  if (caller === 'guest') {
    await users.update(users.byUniqueRole('guest')?.id ?? 0, { disabled: false })
    return ''
  }
  return (await admin.as(caller, caller === 'able' ? able : [])).token
}

void t.test('each endpoint responds to each caller with the code of the table', async (t) => {
  const admin = await serve(t)
  const { gateway } = admin
  await gateway.settings.set(new Map([['favicon', 'https://example.org/i.png']]))
  await admin.as('somebody', [])
  for (const [column, caller] of callers.entries()) {
    let token = await stageFor(admin, caller)
    for (const [name, row] of Object.entries(table)) {
      if (/\/fs\/|\/share\/|\/sd\/|\{path\}/.test(name)) {
        await admin.put('/folder/file.txt', 'content')
        await admin.post('/api/fs/mkdir', { path: '/other' })
      }
      const stage = new Stage(gateway, caller, name.split(' ')[1] ?? '')
      const call = (await row.call?.(stage)) ?? {}
      t.equal(await codeOf(admin.url, name, token, call), row.codes[column], `${name} by ${caller}`)
      if (endsSession.includes(name) && token !== '') token = await signedIn(admin, caller)
      if (caller === 'admin') admin.token = token
    }
  }
})

/** What a thief of a session must not change: all by which one can sign in later, and what one may do then. */
async function credentialsOf({ accounts, settings, store }: Gateway): Promise<object> {
  const users = (await store.users.all()).map(({ passwordTime: _, ...user }) => user)
  const codes = await Promise.all(users.map(({ id }) => accounts.recoveryCodes.count(id)))
  const keys = await store.keys.all()
  const rights = [await store.groups.all(), await store.groups.members(), await store.grants.all()]
  const identities = await store.identities.all()
  return {
    users,
    codes,
    keys,
    rights,
    identities,
    appPasswords: await store.appPasswords.all(),
    token: settings.get('token'),
  }
}

void t.test('ten minutes after the sign-in no endpoint changes a credential', async (t) => {
  const admin = await serve(t)
  const { gateway } = admin
  t.teardown(() => moveClock(0))
  await admin.as('somebody', [])
  let token = await signedIn(admin, 'admin')
  const whole = { key: '/api/admin/setting/save', body: [{ key: 'token', value: '' }] }
  const rows = [...Object.entries(table), [`post ${whole.key}`, { codes: adminOnly, call: () => whole }] as const]
  for (const [name, row] of rows) {
    const [method, path = ''] = name.split(' ')
    const call = (await row.call?.(new Stage(gateway, 'admin', path))) ?? {}
    const before = await credentialsOf(gateway)
    moveClock(10 * 60_000)
    const code = await codeOf(admin.url, name, token, call)
    moveClock(0)
    t.strictSame(await credentialsOf(gateway), before, name)
    const endpoint = documentedEndpoints.find((each) => each.method === method && each.path === path)
    if (endpoint?.recentSignIn === true || call === whole) t.equal(code, 403, name)
    if (endsSession.includes(name)) token = await signedIn(admin, 'admin')
  }
})

async function signedIn({ gateway }: Served, caller: Caller): Promise<string> {
  const plain = caller === 'admin' ? 'admin password' : 'password'
  return gateway.accounts.signIn.issueToken({
    username: caller,
    password: { plain },
    code: undefined,
    address: '127.0.0.1',
  })
}

void t.test('an invalid token is rejected, and does not authenticate the guest', async (t) => {
  const admin = await serve(t)
  const { accounts, store } = admin.gateway
  const secret = await store.secrets.obtain('session tokens', '')
  const { header, payload } = jwt.decode(admin.token, { complete: true })!
  const claims = payload as jwt.JwtPayload
  const dead = await admin.as('gone', able)
  await accounts.users.delete(accounts.users.byName('gone')?.id ?? 0)
  const signedOut = await signedIn(admin, 'admin')
  await accounts.tokens.revoke(signedOut)
  const unsigned = [{ ...header, alg: 'none' }, payload].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  const tokens = {
    rubbish: 'rubbish',
    'a Bearer without a token that is one': 'Bearer x',
    'of another key': jwt.sign(claims, 'another key'),
    'of an empty key': `${admin.token.split('.').slice(0, 2).join('.')}.`,
    'without a signature (alg none)': `${unsigned.join('.')}.`,
    'of another algorithm': jwt.sign(claims, secret, { algorithm: 'HS512' }),
    expired: jwt.sign({ ...claims, exp: Math.floor(Date.now() / 1000) - 1 }, secret),
    'not valid yet': jwt.sign({ ...claims, nbf: Math.floor(Date.now() / 1000) + 3600 }, secret),
    'of another user': jwt.sign({ ...claims, sub: '2' }, secret),
    'of a deleted user': dead.token,
    'signed out': signedOut,
  }
  t.equal(
    (await admin.get('/api/me', { authorization: jwt.sign(claims, secret) })).code,
    200,
    'a token of this key is valid',
  )
  for (const disabled of [true, false]) {
    await accounts.users.update(accounts.users.byUniqueRole('guest')?.id ?? 0, { disabled })
    for (const [name, { codes }] of Object.entries(table)) {
      if (codes[0] !== 401) continue
      const tried = Object.entries({
        ...tokens,
        ...(disabled && { empty: '', 'of spaces': ' ', 'of a bare Bearer': 'Bearer ' }),
      })
      // The body is malformed, which shows that the caller is authenticated before the body is parsed.
      const told = await Promise.all(tried.map(([, token]) => codeOf(admin.url, name, token, { body: '{"' })))
      for (const [index, [kind]] of tried.entries()) t.equal(told[index], 401, `${name} with a token ${kind}`)
    }
  }
})

void t.test('public endpoints ignore an invalid token', async (t) => {
  const { url } = await serve(t)
  for (const [name, { call, codes }] of Object.entries(table)) {
    if (codes !== everybody || call !== undefined) continue
    t.equal(await codeOf(url, name, 'rubbish', {}), 200, name)
  }
})
