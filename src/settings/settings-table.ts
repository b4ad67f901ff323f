/**
 * What an admin can change at run time: the settings that this program reads, and what protocols add to them. Names,
 * defaults and order are part of the API.
 */
import { isAbsolute } from 'node:path'
import { GatewayError } from '../base/errors.js'
import { compilePatterns, patternLines, type Pattern } from '../base/patterns.js'
import type { DriverDescription } from '../contract/driver-type.js'
import { hostAndPort, parseNetworks, syslogServer } from '../net/addresses.js'
import { ldapSettings } from './ldap-settings.js'
import { singleSignOnSettings } from './sign-in-settings.js'

/** The groups in display order. */
const settingGroups = [
  'site',
  'style',
  'preview',
  'global',
  'single',
  'index',
  'singleSignOn',
  'ldap',
  's3',
  'ftp',
  'traffic',
  'offlineDownload',
  'audit',
] as const
export type SettingGroup = (typeof settingGroups)[number]

/** Visibility of a setting: to all clients, to admins only, to all but never changed, or unknown to this version. */
export type SettingFlag = 'public' | 'private' | 'readonly' | 'deprecated'

export const settingTypes = ['string', 'number', 'bool', 'select', 'text'] as const
type SettingType = (typeof settingTypes)[number]

export interface SettingDefinition {
  readonly key: string
  readonly default: string
  readonly type: SettingType
  /** Allowed values of a `select`. */
  readonly options: readonly string[]
  readonly group: SettingGroup
  readonly flag: SettingFlag
  /** Description with the unit. The API returns it with the value, and docs/settings.md shows it. */
  readonly help: string
  /** Whether the daemon or its console reads it. Others are stored, and returned to clients if they are public. */
  readonly inForce: boolean
  /** Whether the value is a secret, which an export without secrets leaves out. */
  readonly secret?: boolean
  /** A check beside that of the type. Throws `invalid` or `costly_pattern`, with a reason for the admin. */
  readonly check?: (value: string) => void
  /** The setting of the group that it is shown before. Absent: it is shown after those that are defined before it. */
  readonly before?: string
}

type Details = Partial<Pick<SettingDefinition, 'options' | 'inForce' | 'secret' | 'check' | 'before'>>
type Row = readonly [type: SettingType, value: string, flag: SettingFlag, help: string, details?: Details]
/** Settings by key, in display order. */
export type SettingRows = Readonly<Record<string, Row>>

/** The definitions of rows of one group, in force unless `common` or the row says otherwise. */
export function inGroup(group: SettingGroup, rows: SettingRows, common: Details = {}): SettingDefinition[] {
  return Object.entries(rows).map(([key, [type, value, flag, help, details]]) => ({
    ...{ key, default: value, type, options: [], group, flag, help, inForce: true },
    ...common,
    ...details,
  }))
}

/** A protocol, as far as settings need it. */
export interface ProtocolWithSettings {
  /** The settings that it adds to those of the core. `drivers`: those of which storages can be created. */
  settings?(drivers: readonly DriverDescription[]): readonly SettingDefinition[]
}

/** All settings of a gateway with these protocols and drivers, in display order. */
export function settingDefinitions(
  protocols: readonly ProtocolWithSettings[],
  drivers: readonly DriverDescription[],
): readonly SettingDefinition[] {
  const all = [...coreSettings]
  for (const added of protocols.flatMap((protocol) => protocol.settings?.(drivers) ?? [])) {
    const at = all.findIndex(({ key }) => key === added.before)
    all.splice(at < 0 ? all.length : at, 0, added)
  }
  return settingGroups.flatMap((group) => all.filter((each) => each.group === group))
}

const robots = `User-agent: *
Allow: /`

/** Parts of error texts to redact: IPv4 and IPv6 addresses, and tokens in URLs. */
const addressesAndTokens = String.raw`(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)
(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}
access_token=[^&\s]+&?`

/** Compiles one pattern per line. Ignores lines that are not regular expressions. Throws `costly_pattern`. */
export function privacyPatterns(text: string): readonly Pattern[] {
  return compilePatterns(
    patternLines(text).map((line) => line.trim()),
    'ignored',
  )
}

function checkProxy(value: string): void {
  if (value === '' || value === 'off' || hostAndPort.safeParse(value).success) return
  throw new GatewayError('invalid', { reason: 'it must be HOST:PORT, off, or empty' })
}

/** The end keeps files of the gateway and of storages from being named by mistake. */
function checkAuditLog(value: string): void {
  if (value === '' || syslogServer(value) !== undefined || (isAbsolute(value) && value.endsWith('.log'))) return
  throw new GatewayError('invalid', {
    reason: 'it must be the absolute path of a file that ends with .log, or syslog://HOST:PORT, or empty',
  })
}

function checkAbsolutePath(value: string): void {
  if (value === '' || isAbsolute(value)) return
  throw new GatewayError('invalid', { reason: 'it must be an absolute path' })
}

/** The settings that the core, or more than one protocol, reads, in display order. */
export const coreSettings: readonly SettingDefinition[] = [
  ...inGroup('site', {
    version: ['string', '', 'readonly', 'The running version; read-only.'],
    site_title: ['string', 'Tidegate', 'public', 'Name of the site, in the title of its pages.'],
    announcement: [
      'text',
      '',
      'public',
      'Markdown that clients show to all users, also the banner of SFTP. Empty: none.',
    ],
    robots_txt: ['text', robots, 'public', 'Content of /robots.txt.'],
  }),
  ...inGroup('style', {
    // Empty: there is no own image, and clients must not load one from a third party.
    logo: [
      'text',
      '',
      'public',
      'URL of the logo: the first line for light pages, the last for dark ones. Empty: none.',
    ],
    favicon: ['string', '', 'public', 'URL of the icon of the site. Empty: none.'],
    main_color: ['string', '#1890ff', 'public', 'Color of buttons and links, as in CSS.'],
    hide_storage_details: [
      'bool',
      'true',
      'private',
      'Listings do not include the disk usage of storages. Guests never get it.',
    ],
    hide_storage_details_in_manage_page: [
      'bool',
      'true',
      'private',
      'The list of storages for admins does not include their disk usage.',
    ],
  }),
  ...inGroup('preview', {
    text_types: [
      'text',
      'txt,htm,html,xml,java,properties,sql,js,md,json,conf,ini,vue,php,py,bat,gitignore,yml,go,sh,c,cpp,h,hpp,tsx,' +
        'vtt,srt,ass,rs,lrc,strm',
      'private',
      'Extensions of files that are shown as text, separated by commas; they may be read through /p.',
    ],
    audio_types: [
      'text',
      'mp3,flac,ogg,m4a,wav,opus,wma',
      'private',
      'Extensions of audio files, separated by commas.',
    ],
    video_types: [
      'text',
      'mp4,mkv,avi,mov,rmvb,webm,flv,m3u8',
      'private',
      'Extensions of videos, separated by commas.',
    ],
    image_types: [
      'text',
      'jpg,tiff,jpeg,png,gif,bmp,svg,ico,swf,webp,avif',
      'private',
      'Extensions of images, separated by commas.',
    ],
    proxy_types: [
      'text',
      'm3u8,url',
      'private',
      'Extensions, separated by commas, of files that the gateway sends itself instead of redirecting clients ' +
        'to the backend.',
    ],
  }),
  ...inGroup('global', {
    package_download: ['bool', 'true', 'public', 'Several files and folders can be downloaded as one archive.'],
    customize_head: ['text', '', 'private', 'HTML for the head of the web client, except its admin pages.'],
    customize_body: ['text', '', 'private', 'HTML for the end of the body of the web client, except its admin pages.'],
    link_expiration: ['number', '0', 'private', 'Hours until a signed URL expires. 0: never.'],
    sign_all: [
      'bool',
      'true',
      'private',
      'Every download URL needs a signature. Off: only where a storage option or a folder rule requires one.',
    ],
    privacy_regs: [
      'text',
      addressesAndTokens,
      'private',
      'Regular expressions, one per line; matching parts of error messages are replaced with asterisks.',
      { check: (value) => void privacyPatterns(value) },
    ],
    ignore_system_files: [
      'bool',
      'false',
      'private',
      'Uploads of .DS_Store, desktop.ini and similar files are refused.',
    ],
  }),
  ...inGroup('single', {
    token: [
      'string',
      '',
      'private',
      'The permanent token: authenticates as the admin, and signs URLs. At least 32 visible ASCII characters ' +
        'without blanks. Empty: replaced with a new one, which invalidates signed URLs.',
      { secret: true },
    ],
    index_progress: ['text', '{}', 'private', 'JSON: progress of the search index. Written by the server.'],
    first_run_done: [
      'bool',
      'false',
      'private',
      'The console no longer offers its first steps to admins. Written by the console.',
    ],
  }),
  ...inGroup('index', {
    search_index: [
      'select',
      'none',
      'public',
      'The search index: database, or none to disable search.',
      { options: ['database', 'database_non_full_text', 'bleve', 'meilisearch', 'none'] },
    ],
    auto_update_index: [
      'bool',
      'false',
      'public',
      'When a folder is read from its storage, its listing is compared with the search index.',
    ],
    ignore_paths: [
      'text',
      '',
      'private',
      'Absolute paths, one per line, that are not indexed, including everything below them.',
    ],
    max_index_depth: ['number', '20', 'private', 'Maximum depth of indexed entries, in path segments.'],
  }),
  ...inGroup('singleSignOn', singleSignOnSettings),
  ...inGroup('ldap', ldapSettings(checkAbsolutePath)),
  ...inGroup('traffic', {
    offline_download_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum concurrent offline downloads of one user, on all nodes together. Of all users, twice as many run.',
    ],
    offline_download_transfer_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum concurrent tasks of one user, on all nodes together, that store the files of external download ' +
        'programs. Of all users, twice as many run.',
    ],
    upload_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum concurrent upload tasks of one user, on all nodes together. Of all users, twice as many run.',
    ],
    copy_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum concurrent copy tasks of one user, on all nodes together. Of all users, twice as many run.',
    ],
    move_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum concurrent move tasks of one user, on all nodes together. Of all users, twice as many run.',
    ],
    max_client_download_speed: [
      'number',
      '-1',
      'private',
      'KiB per second to all clients in total, over all protocols; 0 or less: no limit.',
    ],
    max_client_upload_speed: [
      'number',
      '-1',
      'private',
      'KiB per second from all clients in total, over all protocols; 0 or less: no limit.',
    ],
    max_server_download_speed: [
      'number',
      '-1',
      'private',
      'KiB per second from all network storages in total; 0 or less: no limit.',
    ],
    max_server_upload_speed: [
      'number',
      '-1',
      'private',
      'KiB per second to all network storages in total; 0 or less: no limit.',
    ],
    multipart_enabled: ['bool', 'true', 'public', 'Clients may upload files in chunks.'],
    multipart_chunk_size: ['number', '10', 'public', 'Maximum size of a chunk of such an upload, in megabytes.'],
    finished_tasks_days: ['number', '7', 'private', 'Days until finished tasks are deleted. Negative: never.'],
    transfer_files_at_once: [
      'number',
      '16',
      'private',
      'Maximum files that all copies and moves of one node in total read and write concurrently; those of one ' +
        'user, three quarters of it.',
    ],
    spool_size_limit: [
      'number',
      '-1',
      'private',
      'Megabytes of uploads and open files on the local disk that wait for their storage; files of external ' +
        'download programs may use the remainder. Negative: limited only by the disk.',
    ],
    egress_networks: [
      'text',
      '',
      'private',
      'Networks, in addition to the public internet, that the gateway may connect to when a user or a redirect ' +
        'chooses the host, such as 192.168.1.0/24; one per line.',
      { check: (value) => void parseNetworks(value) },
    ],
    egress_proxy: [
      'string',
      '',
      'private',
      'HOST:PORT of the egress proxy, through which aria2 connects to servers. Empty: a free port of 127.0.0.1 ' +
        'for an aria2 on this machine, none for a remote one; off: none.',
      { check: checkProxy },
    ],
    offline_download_size_limit: [
      'number',
      '102400',
      'private',
      'Maximum size of one offline download, in megabytes. Negative: no limit.',
    ],
    offline_download_temp_dir: [
      'string',
      '',
      'private',
      'Folder of this machine to which aria2 and qBittorrent write and from which the gateway reads, with the ' +
        'same path for all of them. Empty: temp in the data folder.',
      { check: checkAbsolutePath },
    ],
    metrics_networks: [
      'text',
      '',
      'private',
      'Addresses and networks, one per line, from which /metrics can be read without the permanent token, such ' +
        'as 10.0.0.7 or 192.168.1.0/24.',
      { check: (value) => void parseNetworks(value) },
    ],
  }),
  ...inGroup('offlineDownload', {
    aria2_uri: ['string', 'http://localhost:6800/jsonrpc', 'private', 'URL of the JSON-RPC interface of aria2.'],
    aria2_secret: ['string', '', 'private', 'Secret of that interface (--rpc-secret). Empty: none.', { secret: true }],
    qbittorrent_url: [
      'string',
      'http://admin:adminadmin@localhost:8080/',
      'private',
      'URL of the web interface of qBittorrent, with user name and password.',
    ],
    qbittorrent_seedtime: [
      'number',
      '0',
      'private',
      'Minutes to seed a complete torrent. Negative: the torrent and its files are never removed from qBittorrent.',
    ],
  }),
  ...inGroup('audit', {
    audit_enabled: ['bool', 'true', 'private', 'What is done, refused or fails is recorded, with who did it.'],
    audit_days: ['number', '90', 'private', 'Days until events of the audit are deleted. Negative: never.'],
    audit_max_mib: [
      'number',
      '1024',
      'private',
      'Megabytes of the events of the audit in the database, about; beyond it the oldest are deleted. Negative: no ' +
        'limit.',
    ],
    audit_reads: ['bool', 'false', 'private', 'The audit also records each file that is read.'],
    audit_details: [
      'bool',
      'false',
      'private',
      'The audit also records locks of WebDAV, and changes of times, permissions and properties of files.',
    ],
    audit_strict: [
      'bool',
      'false',
      'private',
      'Events of the audit are on disk before their answer is sent, so that a power failure loses none. Changes take ' +
        'longer.',
    ],
    audit_log: [
      'string',
      '',
      'private',
      'Absolute path of a file, which ends with .log, or syslog://HOST:PORT, that gets a line for each event. Empty: none.',
      { check: checkAuditLog },
    ],
  }),
]
