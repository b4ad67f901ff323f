/** `tidegate share …` */
import { Option, type Command } from 'commander'
import { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import { shareModes, type ShareMode } from '../base/rights.js'
import type { ShareRow, ShareUse } from '../database/tables/shares.js'
import type { StorageRow } from '../database/tables/storages.js'
import type * as byDatabaseModule from '../shares/by-database.js'
import { sharePageUrl } from '../shares/path-in-share.js'
import { pathsToJudge, newShare } from '../shares/share-fields.js'
import type { StoredShare, Shares, ShareFields } from '../shares/shares.js'
import type { ShareState } from '../shares/visitor-access.js'
import { Rules } from '../tree/folder-rules.js'
import { Grants } from '../tree/grants.js'
import { inDataFolder, withCommonOptions, type CommonFlags, type DataFolder } from './data-folder.js'
import { kindOnDisk } from './local-files.js'
import { formatTable, print } from './output.js'
import { readPassword } from './password.js'
import { madeShare } from './recording.js'
import { treePath } from './tree-path.js'
import { findUser, parseTime } from './users.js'

interface FieldFlags extends CommonFlags {
  readonly user?: string
  readonly mode?: ShareMode
  readonly randomCode?: boolean
  readonly codeStdin?: boolean
  /** false: the share has no code. */
  readonly code?: boolean
  readonly expires?: string
  readonly visits?: string
  readonly allowFrom?: string
  readonly webdav?: boolean
  readonly uploadMaxBytes?: string
  readonly uploadMaxFiles?: string
  readonly remark?: string
  readonly readme?: string
  readonly header?: string
  readonly orderBy?: ShareRow['orderBy']
  readonly orderDirection?: ShareRow['orderDirection']
  readonly extractFolder?: ShareRow['extractFolder']
  readonly id?: string
}

interface EditFlags extends FieldFlags {
  readonly paths?: readonly string[]
  readonly visited?: string
}

export function addShareCommands(program: Command): void {
  const share = program
    .command('share')
    .description('files and folders for visitors without an account: add, list, show, edit, enable, disable, rm')

  withFieldOptions(withCommonOptions(share.command('add <paths...>')))
    .description('share files and folders of the whole tree; several appear as one folder')
    .option('--user <username>', 'whose share it is, and by whose rights it is judged')
    .option('--id <id>', 'the id in its link; a random one by default')
    .action(async (paths: readonly string[], flags: FieldFlags) => {
      const { user, id = '' } = flags
      if (user === undefined) throw invalid('name the user whose share it is with --user')
      const roots = treePaths(paths)
      const { changes, generatedCode } = await changesOf(flags)
      await inShares(flags, async (opened) => {
        const fields = { ...newShare, ...changes, creatorId: findUser(opened.accounts, user).id }
        const unknown = await opened.assertMayShare({ id, ...fields }, roots)
        const added = await opened.shares.create(id, fields, roots)
        madeShare(flags, added.id)
        const link = linkOf(opened, added.id)
        const withCode = generatedCode === undefined ? '' : `, with the code ${generatedCode}`
        const notes = unknown.map((path) => `\nWhether there is a file or folder ${path} is not checked here.`)
        const shown = { ...(await opened.describe(added)), not_checked: unknown }
        print(flags, shown, `the share ${added.id} is added: ${link}${withCode}${notes.join('')}`)
      })
    })

  withCommonOptions(share.command('list'))
    .description('list the shares of all users, or of one')
    .option('--user <username>', 'those of one user')
    .action((flags: CommonFlags & Pick<FieldFlags, 'user'>) =>
      inShares(flags, async (opened) => {
        const creatorId = flags.user === undefined ? undefined : findUser(opened.accounts, flags.user).id
        const all = opened.shares.list().filter((each) => creatorId === undefined || each.creatorId === creatorId)
        const used = await opened.shares.use(all.map(({ id }) => id))
        const shown: Described[] = []
        for (const each of all) shown.push(await opened.describe(each, used))
        const rows = shown.map(
          ({ id, pseudonym, creator, mode, state, accessed, max_accessed: max, expires, files }) => {
            const visits = max > 0 ? `${accessed} of ${max}` : accessed
            return [id, pseudonym, creator, mode, state, visits, expires?.toISOString() ?? 'never', files.join(', ')]
          },
        )
        const columns = ['id', 'pseudonym', 'user', 'mode', 'state', 'visits', 'ends', 'shows']
        // The codes are shown by `share show`, one at a time.
        print(flags, shown.map(withoutCode), formatTable(columns, rows))
      }),
    )

  withCommonOptions(share.command('show <id>'))
    .description('show a share with its link and its code')
    .action((id: string, flags: CommonFlags) =>
      inShares(flags, async (opened) => {
        const shown = await opened.describe(findShare(opened.shares, id))
        const rows = Object.entries(shown).map(([field, value]) => [field.replaceAll('_', ' '), wordsFor(value)])
        print(flags, shown, formatTable(['field', 'value'], rows))
      }),
    )

  withFieldOptions(withCommonOptions(share.command('edit <id>')))
    .description('change what is given, and leave the rest; it is in force at once')
    .option('--no-code', 'visitors need no code')
    .option('--no-webdav', 'visitors cannot open it as a drive')
    .option('--paths <paths...>', 'the files and folders, in place of those that it has')
    .option('--visited <count>', 'the number of visits until now; 0 begins anew')
    .option('--user <username>', 'another user whose share it is')
    .option('--id <id>', 'another id; links with the old one open nothing any more')
    .action(async (id: string, flags: EditFlags) => {
      const roots = flags.paths === undefined ? undefined : treePaths(flags.paths)
      const visited = flags.visited === undefined ? undefined : countOf('--visited', flags.visited)
      const { changes: fields, generatedCode } = await changesOf(flags)
      await inShares(flags, async (opened) => {
        const { shares, accounts } = opened
        const creatorId = flags.user === undefined ? undefined : findUser(accounts, flags.user).id
        const changes = {
          ...fields,
          ...(creatorId !== undefined && { creatorId }),
          ...(flags.id !== undefined && { id: flags.id }),
        }
        if (Object.keys(changes).length === 0 && roots === undefined && visited === undefined) {
          throw invalid('nothing to change: see "tidegate share edit --help"')
        }
        const before = findShare(shares, id)
        const paths = roots ?? before.roots.map(({ path }) => path)
        const { added, kept, removed } = pathsToJudge(before, changes, paths)
        if (roots !== undefined && removed[0] !== undefined) {
          throw invalid(
            `${removed[0]} was removed, which ended it in this share: make a new share for what is there now`,
          )
        }
        await opened.assertMayShare({ ...before, ...changes, id }, [...kept, ...added], kept)
        const changed = await shares.update(id, changes, roots, visited)
        const withCode = generatedCode === undefined ? '' : `, and has the code ${generatedCode}`
        print(flags, await opened.describe(changed), `the share ${changed.id} is changed${withCode}`)
      })
    })

  for (const [verb, disabled] of [
    ['enable', false],
    ['disable', true],
  ] as const) {
    withCommonOptions(share.command(`${verb} <id>`))
      .description(disabled ? 'refuse all visitors of a share, and end what they have open' : 'let visitors in again')
      .action((id: string, flags: CommonFlags) =>
        inShares(flags, async (opened) => {
          findShare(opened.shares, id)
          const changed = await opened.shares.update(id, { disabled })
          print(flags, await opened.describe(changed), `the share ${id} is ${verb}d`)
        }),
      )
  }

  withCommonOptions(share.command('rm <id>').alias('remove'))
    .description('remove a share; its files and folders stay')
    .action((id: string, flags: CommonFlags) =>
      inShares(flags, async (opened) => {
        const shown = await opened.describe(findShare(opened.shares, id))
        await opened.shares.delete(id)
        print(flags, shown, `the share ${id} is removed`)
      }),
    )
}

function withFieldOptions(command: Command): Command {
  return command
    .addOption(new Option('--mode <mode>', 'what visitors may do; a new share is one to read').choices(shareModes))
    .option('--random-code', 'visitors need a code: generate one and print it')
    .option('--code-stdin', 'visitors need a code: read it from the first line of standard input')
    .option('--expires <time>', 'when it ends (RFC 3339), or "never"')
    .option('--visits <count>', 'how many visits there may be, or "any"')
    .option('--allow-from <list>', 'comma-separated addresses and networks of visitors, or "any"')
    .option('--webdav', 'visitors can also open it as a drive (WebDAV)')
    .option('--upload-max-bytes <bytes>', 'the size of all uploads together, or "any"')
    .option('--upload-max-files <count>', 'the number of all uploads together, or "any"')
    .option('--remark <text>', 'a note for its creator: visitors do not see it')
    .option('--readme <text>', 'Markdown, or the URL of it, that visitors see below each listing')
    .option('--header <text>', 'the same, above each listing')
    .addOption(new Option('--order-by <key>', 'the order of listings').choices(['', 'name', 'size', 'modified']))
    .addOption(new Option('--order-direction <direction>', 'the same').choices(['', 'asc', 'desc']))
    .addOption(new Option('--extract-folder <place>', 'where listings have the folders').choices(['', 'front', 'back']))
    .addHelpText(
      'after',
      '\nModes: read (list and download), upload (add files and see none), both (also replace files and make folders).' +
        '\nPaths are those of the whole tree. A running daemon applies the change within a second.',
    )
}

/**
 * The fields that the flags name. `generatedCode`: undefined if none was generated. Rejects with `invalid` for
 * impossible values.
 */
async function changesOf(
  flags: FieldFlags,
): Promise<{ readonly changes: Partial<ShareFields>; readonly generatedCode: string | undefined }> {
  const { mode, expires, visits, allowFrom, webdav, uploadMaxBytes, uploadMaxFiles } = flags
  const { remark, readme, header, orderBy, orderDirection, extractFolder } = flags
  const { randomCode = false, codeStdin = false } = flags
  const asked = [randomCode, codeStdin, flags.code === false]
  if (asked.filter(Boolean).length > 1) {
    throw invalid('give only one of --random-code, --code-stdin and --no-code')
  }
  const read =
    randomCode || codeStdin ? await readPassword({ random: randomCode, passwordStdin: codeStdin }) : undefined
  if (read?.password === '') throw invalid('the code is empty: for none, give no option for it, or --no-code')
  const code = flags.code === false ? '' : read?.password
  const given = {
    ...{ mode, code, webdav, remark, readme, header, orderBy, orderDirection, extractFolder },
    maxVisits: visits === undefined ? undefined : countOf('--visits', visits, 1),
    allowFrom:
      allowFrom === undefined ? undefined : allowFrom === 'any' ? [] : allowFrom.split(',').map((each) => each.trim()),
    uploadMaxBytes: uploadMaxBytes === undefined ? undefined : countOf('--upload-max-bytes', uploadMaxBytes, 1),
    uploadMaxFiles: uploadMaxFiles === undefined ? undefined : countOf('--upload-max-files', uploadMaxFiles, 1),
  }
  const changes = {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    ...(expires !== undefined && { expires: expires === 'never' ? undefined : endOf(expires) }),
  }
  return { changes, generatedCode: read?.generated === true ? read.password : undefined }
}

/** Throws `invalid` for another text than a number of at least `min`, or `any`, which is 0. */
function countOf(option: string, text: string, min = 0): number {
  if (min > 0 && text === 'any') return 0
  const count = /^\d{1,16}$/.test(text) ? Number(text) : NaN
  if (count >= min && Number.isSafeInteger(count)) return count
  throw invalid(`${option} is a number of ${min} or more${min > 0 ? ', or "any"' : ''}`)
}

function endOf(text: string): Date {
  const end = parseTime(text)
  if (end.getTime() <= Date.now()) throw invalid(`${text} is past`)
  return end
}

function treePaths(texts: readonly string[]): readonly Path[] {
  return [...new Set(texts.map(treePath))]
}

function findShare(shares: Shares, id: string): StoredShare {
  const share = shares.get(id)
  if (share === undefined) throw new GatewayError('not_found', { reason: `there is no share ${id}` })
  return share
}

/** The shares of an installation, with what says who may share what. */
class OpenedShares {
  constructor(
    private readonly folder: DataFolder,
    readonly shares: Shares,
    private readonly byDatabase: typeof byDatabaseModule,
    private readonly policies: { readonly rules: Rules; readonly grants: Grants },
    private readonly storages: readonly StorageRow[],
  ) {}

  get accounts() {
    return this.folder.accounts
  }

  get config() {
    return this.folder.config
  }

  /**
   * Rejects if the creator may not share these, or one is missing. Resolves to those of which only the daemon can say
   * whether they exist. `kept`: those that may be missing, because the share has them already.
   */
  async assertMayShare(
    share: Pick<ShareRow, 'id' | 'creatorId' | 'mode'>,
    roots: readonly Path[],
    kept: readonly Path[] = [],
  ): Promise<readonly Path[]> {
    const unknown: Path[] = []
    for (const path of roots) {
      const kind = await kindOnDisk(this.config, this.storages, path)
      const why = this.byDatabase.refusalOfSharing(this.#sources, share, path, kind)
      if (why !== undefined) {
        const reason = `${this.#nameOf(share.creatorId)} may not share ${path} in the mode ${share.mode}: ${why}`
        throw new GatewayError('denied', { reason })
      }
      if (kind === 'file' && share.mode !== 'read') throw invalid(`visitors upload into folders, and ${path} is a file`)
      if (kind === 'missing' && !kept.includes(path)) {
        throw new GatewayError('not_found', { reason: `there is no file or folder ${path}` })
      }
      if (kind === undefined) unknown.push(path)
    }
    return unknown
  }

  /** The share as commands print it, with the names of the API. */
  async describe(share: StoredShare, known?: ReadonlyMap<string, ShareUse>) {
    const used = known ?? (await this.shares.use([share.id]))
    const use = used.get(share.id)
    const kindOf = (path: Path) => kindOnDisk(this.config, this.storages, path)
    const state: ShareState = await this.byDatabase.stateByDatabase(this.#sources, share, use, kindOf)
    return {
      id: share.id,
      pseudonym: this.shares.pseudonymOf(share.id),
      link: linkOf(this, share.id),
      files: share.roots.map(({ path }) => path),
      creator: this.#nameOf(share.creatorId),
      mode: share.mode,
      state,
      pwd: share.code,
      expires: share.expires ?? null,
      accessed: use?.visits ?? 0,
      max_accessed: share.maxVisits,
      disabled: share.disabled,
      allow_from: share.allowFrom,
      webdav: share.webdav,
      upload_max_bytes: share.uploadMaxBytes,
      upload_max_files: share.uploadMaxFiles,
      uploaded_bytes: use?.uploadedBytes ?? 0,
      uploaded_files: use?.uploadedFiles ?? 0,
      remark: share.remark,
      readme: share.readme,
      header: share.header,
      order_by: share.orderBy,
      order_direction: share.orderDirection,
      extract_folder: share.extractFolder,
      created: share.created,
    }
  }

  get #sources() {
    return { accounts: this.accounts, shares: this.shares, ...this.policies }
  }

  #nameOf(userId: number): string {
    return this.accounts.users.get(userId)?.username ?? String(userId)
  }
}

type Described = Awaited<ReturnType<OpenedShares['describe']>>

function withoutCode({ pwd, ...shown }: Described) {
  return { ...shown, has_pwd: pwd !== '' }
}

/** `site_url` is empty, a path or a whole URL. */
function linkOf({ config }: Pick<OpenedShares, 'config'>, id: string): string {
  return `${config.site_url.replace(/\/+$/, '')}${sharePageUrl(id)}`
}

function wordsFor(value: Described[keyof Described]): string | number | boolean {
  if (value === null) return 'never'
  if (value instanceof Date) return value.toISOString()
  return typeof value === 'object' ? value.join(', ') : value
}

async function inShares(flags: CommonFlags, work: (opened: OpenedShares) => Promise<void>): Promise<void> {
  await inDataFolder(flags, async (folder) => {
    const { store } = folder
    // Imported lazily: other commands start faster without them.
    const mirror = await import('../shares/shares.js')
    const byDatabase = await import('../shares/by-database.js')
    const shares = await mirror.Shares.load({ store, foldedPath: () => undefined })
    const policies = { rules: await Rules.load(store), grants: await Grants.load(store) }
    await work(new OpenedShares(folder, shares, byDatabase, policies, await store.storages.all()))
  })
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
