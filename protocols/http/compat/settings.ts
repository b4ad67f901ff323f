/**
 * The settings that the API of AList and OpenList has beside those of the core. Clients read and write them. Most are
 * only stored, for parts that this version does not have.
 */
import type { DriverDescription } from '../../../src/contract/driver-type.js'
import {
  inGroup,
  type SettingDefinition,
  type SettingGroup,
  type SettingRows,
} from '../../../src/settings/settings-table.js'

/**
 * Settings at the end of the group. A row that a source reads says `inForce: true`: a test compares it with the
 * sources.
 */
function atEndOf(group: SettingGroup, rows: SettingRows): SettingDefinition[] {
  return inGroup(group, rows, { inForce: false })
}

/** Like `atEndOf`, for settings before one of the core. */
function before(key: string, group: SettingGroup, rows: SettingRows): SettingDefinition[] {
  return inGroup(group, rows, { inForce: false, before: key })
}

const shareSummary = `{{creator}} shares with you by {{site_title}}:
{{#each files}}
- {{this}}
{{/each}}
{{base_url}}/@s/{{id}}{{#if pwd}} (password: {{pwd}}){{/if}}{{#if expires}}, until {{expires}}{{/if}}`

const table: readonly SettingDefinition[] = [
  ...before('robots_txt', 'site', {
    pagination_type: [
      'select',
      'all',
      'public',
      'How clients show long folders: as one list, in pages, or loading more on demand.',
      { options: ['all', 'pagination', 'load_more', 'auto_load_more'] },
    ],
    default_page_size: ['number', '30', 'public', 'Entries per page, for clients that show pages.'],
    allow_indexed: ['bool', 'false', 'public', 'Whether other instances may index this one.'],
    allow_mounted: ['bool', 'true', 'public', 'Whether other instances may mount this one as the guest.'],
  }),
  ...before('hide_storage_details', 'style', {
    home_icon: ['string', '🏠', 'public', 'Text or emoji for the root of the tree.'],
    share_icon: ['string', '🎁', 'public', 'Text or emoji for shares.'],
    home_container: [
      'select',
      'max_980px',
      'public',
      'Width of the pages: at most 980 pixels, or the width of the window.',
      { options: ['max_980px', 'hope_container'] },
    ],
    settings_layout: ['select', 'list', 'public', 'Layout of the settings pages.', { options: ['list', 'responsive'] }],
  }),
  ...atEndOf('style', {
    show_disk_usage_in_plain_text: [
      'bool',
      'false',
      'public',
      'The disk usage of a storage is shown as text instead of a bar.',
    ],
  }),
  ...atEndOf('preview', {
    proxy_ignore_headers: [
      'text',
      'authorization,referer',
      'private',
      'Request headers of clients, separated by commas, that are not forwarded to backends.',
    ],
    external_previews: [
      'text',
      '{}',
      'public',
      'JSON: for extensions or a /regex/, the external programs that open the files, as names and URLs with ' +
        '$url, $durl and $name.',
    ],
    iframe_previews: ['text', '{}', 'public', 'JSON of the same form: web pages that show the files in a frame.'],
    audio_cover: ['string', '', 'public', 'URL of the image for audio files without a cover. Empty: none.'],
    audio_autoplay: ['bool', 'true', 'public', 'Audio files start playing when they are opened.'],
    video_autoplay: ['bool', 'true', 'public', 'Videos start playing when they are opened.'],
    preview_download_by_default: [
      'bool',
      'false',
      'public',
      'Opening a file shows the download page instead of a preview.',
    ],
    preview_archives_by_default: ['bool', 'true', 'public', 'Opening an archive shows its contents.'],
    share_preview_download_by_default: [
      'bool',
      'true',
      'public',
      'Opening a file of a share shows the download page instead of a preview.',
    ],
    share_preview_archives_by_default: ['bool', 'false', 'public', 'Opening an archive of a share shows its contents.'],
    readme_autorender: ['bool', 'true', 'public', 'The README.md of a folder is shown below its listing.'],
    filter_readme_scripts: ['bool', 'true', 'public', 'Scripts in a README.md are removed when it is shown.'],
    non_efs_zip_encoding: [
      'string',
      'IBM437',
      'public',
      'Encoding of the names in ZIP archives that do not declare it.',
    ],
  }),
  ...before('package_download', 'global', {
    hide_files: [
      'text',
      '/\\/README.md/i',
      'public',
      'Names that clients do not show, one /regex/flags per line. The server still lists them: to hide files ' +
        'from users, use a folder rule.',
    ],
  }),
  ...before('ignore_system_files', 'global', {
    ocr_api: ['string', '', 'public', 'URL of a service for text recognition in images. Empty: none.'],
    filename_char_mapping: [
      'text',
      '{"/": "|"}',
      'public',
      'JSON object: texts in names from backends, and their replacements in listings.',
    ],
    forward_direct_link_params: [
      'bool',
      'false',
      'public',
      'Query parameters of a download URL are added to the direct URL of the backend.',
      { inForce: true },
    ],
    ignore_direct_link_params: [
      'string',
      'sign,openlist_ts,raw',
      'public',
      'Query parameters, separated by commas, that are not added.',
      { inForce: true },
    ],
    webauthn_login_enabled: [
      'bool',
      'false',
      'public',
      'Users can register passkeys and sign in with them. site_url must be a URL of https.',
      { inForce: true },
    ],
    share_preview: ['bool', 'false', 'public', 'Files of shares can be previewed.'],
    share_archive_preview: ['bool', 'false', 'public', 'Archives of shares can be browsed.'],
    share_force_proxy: [
      'bool',
      'true',
      'private',
      'Files of shares are always sent by the gateway. Otherwise visitors are redirected to direct URLs of the backend, ' +
        'which may tell where the file is stored, and may work when the share has ended.',
      { inForce: true },
    ],
    filebrowser_share_links: [
      'bool',
      'false',
      'private',
      'Links of File Browser, /share/ID, /public/share/ID and /api/public/dl/ID, lead to the shares of the same ids, as ' +
        'after an import. The page of a folder /share/ID is not opened by its URL then.',
      { inForce: true },
    ],
    share_summary_content: ['text', shareSummary, 'public', 'Template of the text for a share.'],
    handle_hook_after_writing: [
      'bool',
      'false',
      'private',
      'Whether the search index is updated after writes; this server always updates it.',
    ],
    handle_hook_rate_limit: [
      'number',
      '0',
      'private',
      'Maximum writes per second that update the search index. 0: no limit.',
    ],
  }),
  ...atEndOf('s3', {
    s3_access_key_id: ['string', '', 'private', 'Access key of the S3 protocol.'],
    s3_secret_access_key: ['string', '', 'private', 'Secret key of the S3 protocol.', { secret: true }],
    s3_buckets: ['string', '[]', 'private', 'JSON list of the buckets of the S3 protocol.'],
  }),
  ...atEndOf('ftp', {
    ftp_public_host: [
      'string',
      '127.0.0.1',
      'private',
      'Address that the FTP protocol announces for passive connections.',
    ],
    ftp_pasv_port_map: ['text', '', 'private', 'Ports of passive connections.'],
    ftp_mandatory_tls: ['bool', 'false', 'private', 'The FTP protocol refuses connections without TLS.'],
    ftp_implicit_tls: ['bool', 'false', 'private', 'Connections start with TLS.'],
    ftp_tls_private_key_path: ['string', '', 'private', 'File of the private key for TLS.'],
    ftp_tls_public_cert_path: ['string', '', 'private', 'File of the certificate for TLS.'],
  }),
  ...before('max_client_download_speed', 'traffic', {
    decompress_download_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum archives that are fetched concurrently for extraction.',
    ],
    decompress_upload_task_threads_num: [
      'number',
      '5',
      'private',
      'Maximum extracted archives that are stored concurrently.',
    ],
  }),
  ...atEndOf('offlineDownload', {
    transmission_uri: [
      'string',
      'http://localhost:9091/transmission/rpc',
      'private',
      'URL of the RPC interface of Transmission.',
    ],
    transmission_seedtime: ['number', '0', 'private', 'Minutes to seed a complete torrent.'],
  }),
]

/** The folder of each tool by which storages download. The tools are those that the drivers declare. */
function toolFolders(drivers: readonly DriverDescription[]): readonly SettingDefinition[] {
  const tools = drivers.flatMap(({ name: driver, facts }) =>
    facts?.downloadTool ? [{ driver, ...facts.downloadTool }] : [],
  )
  const rows = tools.map(({ driver, name, folderSetting }, index) => {
    const help =
      `Folder of a ${driver} storage, as a path of the tree, into which the tool ${name} downloads what is meant for ` +
      `other storages. Empty: it downloads into ${driver} storages only.`
    return [folderSetting, ['string', '', 'private', index === 0 ? help : `The same for ${name}.`]] as const
  })
  return inGroup('offlineDownload', Object.fromEntries(rows))
}

/** The settings of the table, and of the tools of the drivers. */
export function settingsOfTheApi(drivers: readonly DriverDescription[]): readonly SettingDefinition[] {
  return [...table, ...toolFolders(drivers)]
}
