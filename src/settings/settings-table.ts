/** All settings that an admin can change at run time. Names, defaults and order are part of the API. */
import { settingsHelp, type SettingKey } from './settings-help.js'

export type SettingGroup =
  | 'single'
  | 'site'
  | 'style'
  | 'preview'
  | 'global'
  | 'offlineDownload'
  | 'index'
  | 'singleSignOn'
  | 'ldap'
  | 's3'
  | 'ftp'
  | 'traffic'

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
  /** Description with the unit. */
  readonly help: string
  /** Whether the daemon or its console reads it. Others are stored, and returned to clients if they are public. */
  readonly inForce: boolean
}

type Details = { readonly options?: readonly string[] }
type Row = readonly [key: SettingKey, type: SettingType, value: string, flag: SettingFlag, details?: Details]

/** The settings of parts that this version does not have. A test compares it with what the sources read. */
const notInForce: ReadonlySet<SettingKey> = new Set([
  'pagination_type',
  'default_page_size',
  'allow_indexed',
  'allow_mounted',
  'home_icon',
  'share_icon',
  'home_container',
  'settings_layout',
  'show_disk_usage_in_plain_text',
  'proxy_ignore_headers',
  'external_previews',
  'iframe_previews',
  'audio_cover',
  'audio_autoplay',
  'video_autoplay',
  'preview_download_by_default',
  'preview_archives_by_default',
  'share_preview_download_by_default',
  'share_preview_archives_by_default',
  'readme_autorender',
  'filter_readme_scripts',
  'non_efs_zip_encoding',
  'hide_files',
  'ocr_api',
  'filename_char_mapping',
  'webauthn_login_enabled',
  'share_preview',
  'share_archive_preview',
  'share_force_proxy',
  'share_summary_content',
  'handle_hook_after_writing',
  'handle_hook_rate_limit',
  'sso_login_enabled',
  'sso_login_platform',
  'sso_client_id',
  'sso_client_secret',
  'sso_oidc_username_key',
  'sso_organization_name',
  'sso_application_name',
  'sso_endpoint_name',
  'sso_jwt_public_key',
  'sso_extra_scopes',
  'sso_auto_register',
  'sso_default_dir',
  'sso_default_permission',
  'sso_compatibility_mode',
  'ldap_login_enabled',
  'ldap_server',
  'ldap_skip_tls_verify',
  'ldap_manager_dn',
  'ldap_manager_password',
  'ldap_user_search_base',
  'ldap_user_search_filter',
  'ldap_default_dir',
  'ldap_default_permission',
  'ldap_login_tips',
  's3_access_key_id',
  's3_secret_access_key',
  's3_buckets',
  'ftp_public_host',
  'ftp_pasv_port_map',
  'ftp_mandatory_tls',
  'ftp_implicit_tls',
  'ftp_tls_private_key_path',
  'ftp_tls_public_cert_path',
  'decompress_download_task_threads_num',
  'decompress_upload_task_threads_num',
  'transmission_uri',
  'transmission_seedtime',
])

function inGroup(group: SettingGroup, rows: readonly Row[]): SettingDefinition[] {
  return rows.map(([key, type, value, flag, { options = [] } = {}]) => ({
    key,
    default: value,
    type,
    options,
    group,
    flag,
    help: settingsHelp[key],
    inForce: !notInForce.has(key),
  }))
}

const robots = `User-agent: *
Allow: /`

/** Parts of error texts to redact: IPv4 and IPv6 addresses, and tokens in URLs. */
const privacyPatterns = String.raw`(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)
(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}
access_token=[^&\s]+&?`

const shareSummary = `{{creator}} shares with you by {{site_title}}:
{{#each files}}
- {{this}}
{{/each}}
{{base_url}}/@s/{{id}}{{#if pwd}} (password: {{pwd}}){{/if}}{{#if expires}}, until {{expires}}{{/if}}`

/** Settings whose values are secret. */
export const secretSettings: ReadonlySet<string> = new Set<SettingKey>([
  'token',
  'sso_client_secret',
  'ldap_manager_password',
  's3_secret_access_key',
  'aria2_secret',
])

/** In display order. */
export const settingsTable: readonly SettingDefinition[] = [
  ...inGroup('site', [
    ['version', 'string', '', 'readonly'],
    ['site_title', 'string', 'Tidegate', 'public'],
    ['announcement', 'text', '', 'public'],
    ['pagination_type', 'select', 'all', 'public', { options: ['all', 'pagination', 'load_more', 'auto_load_more'] }],
    ['default_page_size', 'number', '30', 'public'],
    ['allow_indexed', 'bool', 'false', 'public'],
    ['allow_mounted', 'bool', 'true', 'public'],
    ['robots_txt', 'text', robots, 'public'],
  ]),
  ...inGroup('style', [
    // Empty: there is no own image, and clients must not load one from a third party.
    ['logo', 'text', '', 'public'],
    ['favicon', 'string', '', 'public'],
    ['main_color', 'string', '#1890ff', 'public'],
    ['home_icon', 'string', '🏠', 'public'],
    ['share_icon', 'string', '🎁', 'public'],
    ['home_container', 'select', 'max_980px', 'public', { options: ['max_980px', 'hope_container'] }],
    ['settings_layout', 'select', 'list', 'public', { options: ['list', 'responsive'] }],
    ['hide_storage_details', 'bool', 'true', 'private'],
    ['hide_storage_details_in_manage_page', 'bool', 'true', 'private'],
    ['show_disk_usage_in_plain_text', 'bool', 'false', 'public'],
  ]),
  ...inGroup('preview', [
    [
      'text_types',
      'text',
      'txt,htm,html,xml,java,properties,sql,js,md,json,conf,ini,vue,php,py,bat,gitignore,yml,go,sh,c,cpp,h,hpp,tsx,' +
        'vtt,srt,ass,rs,lrc,strm',
      'private',
    ],
    ['audio_types', 'text', 'mp3,flac,ogg,m4a,wav,opus,wma', 'private'],
    ['video_types', 'text', 'mp4,mkv,avi,mov,rmvb,webm,flv,m3u8', 'private'],
    ['image_types', 'text', 'jpg,tiff,jpeg,png,gif,bmp,svg,ico,swf,webp,avif', 'private'],
    ['proxy_types', 'text', 'm3u8,url', 'private'],
    ['proxy_ignore_headers', 'text', 'authorization,referer', 'private'],
    ['external_previews', 'text', '{}', 'public'],
    ['iframe_previews', 'text', '{}', 'public'],
    ['audio_cover', 'string', '', 'public'],
    ['audio_autoplay', 'bool', 'true', 'public'],
    ['video_autoplay', 'bool', 'true', 'public'],
    ['preview_download_by_default', 'bool', 'false', 'public'],
    ['preview_archives_by_default', 'bool', 'true', 'public'],
    ['share_preview_download_by_default', 'bool', 'true', 'public'],
    ['share_preview_archives_by_default', 'bool', 'false', 'public'],
    ['readme_autorender', 'bool', 'true', 'public'],
    ['filter_readme_scripts', 'bool', 'true', 'public'],
    ['non_efs_zip_encoding', 'string', 'IBM437', 'public'],
  ]),
  ...inGroup('global', [
    ['hide_files', 'text', '/\\/README.md/i', 'public'],
    ['package_download', 'bool', 'true', 'public'],
    ['customize_head', 'text', '', 'private'],
    ['customize_body', 'text', '', 'private'],
    ['link_expiration', 'number', '0', 'private'],
    ['sign_all', 'bool', 'true', 'private'],
    ['privacy_regs', 'text', privacyPatterns, 'private'],
    ['ocr_api', 'string', '', 'public'],
    ['filename_char_mapping', 'text', '{"/": "|"}', 'public'],
    ['forward_direct_link_params', 'bool', 'false', 'public'],
    ['ignore_direct_link_params', 'string', 'sign,openlist_ts,raw', 'public'],
    ['webauthn_login_enabled', 'bool', 'false', 'public'],
    ['share_preview', 'bool', 'false', 'public'],
    ['share_archive_preview', 'bool', 'false', 'public'],
    ['share_force_proxy', 'bool', 'true', 'private'],
    ['share_summary_content', 'text', shareSummary, 'public'],
    ['handle_hook_after_writing', 'bool', 'false', 'private'],
    ['handle_hook_rate_limit', 'number', '0', 'private'],
    ['ignore_system_files', 'bool', 'false', 'private'],
  ]),
  ...inGroup('single', [
    ['token', 'string', '', 'private'],
    ['index_progress', 'text', '{}', 'private'],
    ['first_run_done', 'bool', 'false', 'private'],
  ]),
  ...inGroup('index', [
    [
      'search_index',
      'select',
      'none',
      'public',
      { options: ['database', 'database_non_full_text', 'bleve', 'meilisearch', 'none'] },
    ],
    ['auto_update_index', 'bool', 'false', 'public'],
    ['ignore_paths', 'text', '', 'private'],
    ['max_index_depth', 'number', '20', 'private'],
  ]),
  ...inGroup('singleSignOn', [
    ['sso_login_enabled', 'bool', 'false', 'public'],
    [
      'sso_login_platform',
      'select',
      '',
      'public',
      { options: ['Casdoor', 'Github', 'Microsoft', 'Google', 'Dingtalk', 'OIDC'] },
    ],
    ['sso_client_id', 'string', '', 'private'],
    ['sso_client_secret', 'string', '', 'private'],
    ['sso_oidc_username_key', 'string', 'name', 'private'],
    ['sso_organization_name', 'string', '', 'private'],
    ['sso_application_name', 'string', '', 'private'],
    ['sso_endpoint_name', 'string', '', 'private'],
    ['sso_jwt_public_key', 'string', '', 'private'],
    ['sso_extra_scopes', 'string', '', 'private'],
    ['sso_auto_register', 'bool', 'false', 'private'],
    ['sso_default_dir', 'string', '/', 'private'],
    ['sso_default_permission', 'number', '0', 'private'],
    ['sso_compatibility_mode', 'bool', 'false', 'public'],
  ]),
  ...inGroup('ldap', [
    ['ldap_login_enabled', 'bool', 'false', 'public'],
    ['ldap_server', 'string', '', 'private'],
    ['ldap_skip_tls_verify', 'bool', 'false', 'private'],
    ['ldap_manager_dn', 'string', '', 'private'],
    ['ldap_manager_password', 'string', '', 'private'],
    ['ldap_user_search_base', 'string', '', 'private'],
    ['ldap_user_search_filter', 'string', '(uid=%s)', 'private'],
    ['ldap_default_dir', 'string', '/', 'private'],
    ['ldap_default_permission', 'number', '0', 'private'],
    ['ldap_login_tips', 'string', 'login with ldap', 'public'],
  ]),
  ...inGroup('s3', [
    ['s3_access_key_id', 'string', '', 'private'],
    ['s3_secret_access_key', 'string', '', 'private'],
    ['s3_buckets', 'string', '[]', 'private'],
  ]),
  ...inGroup('ftp', [
    ['ftp_public_host', 'string', '127.0.0.1', 'private'],
    ['ftp_pasv_port_map', 'text', '', 'private'],
    ['ftp_mandatory_tls', 'bool', 'false', 'private'],
    ['ftp_implicit_tls', 'bool', 'false', 'private'],
    ['ftp_tls_private_key_path', 'string', '', 'private'],
    ['ftp_tls_public_cert_path', 'string', '', 'private'],
    ['sftp_disable_password_login', 'bool', 'false', 'private'],
    ['sftp_keep_partial_uploads', 'bool', 'false', 'private'],
  ]),
  ...inGroup('traffic', [
    ['offline_download_task_threads_num', 'number', '5', 'private'],
    ['offline_download_transfer_task_threads_num', 'number', '5', 'private'],
    ['upload_task_threads_num', 'number', '5', 'private'],
    ['copy_task_threads_num', 'number', '5', 'private'],
    ['move_task_threads_num', 'number', '5', 'private'],
    ['decompress_download_task_threads_num', 'number', '5', 'private'],
    ['decompress_upload_task_threads_num', 'number', '5', 'private'],
    ['max_client_download_speed', 'number', '-1', 'private'],
    ['max_client_upload_speed', 'number', '-1', 'private'],
    ['max_server_download_speed', 'number', '-1', 'private'],
    ['max_server_upload_speed', 'number', '-1', 'private'],
    ['multipart_enabled', 'bool', 'true', 'public'],
    ['multipart_chunk_size', 'number', '10', 'public'],
    ['finished_tasks_days', 'number', '7', 'private'],
    ['transfer_files_at_once', 'number', '16', 'private'],
    ['spool_size_limit', 'number', '-1', 'private'],
    ['egress_networks', 'text', '', 'private'],
    ['egress_proxy', 'string', '', 'private'],
    ['offline_download_size_limit', 'number', '102400', 'private'],
    ['offline_download_temp_dir', 'string', '', 'private'],
    ['metrics_networks', 'text', '', 'private'],
  ]),
  ...inGroup('offlineDownload', [
    ['aria2_uri', 'string', 'http://localhost:6800/jsonrpc', 'private'],
    ['aria2_secret', 'string', '', 'private'],
    ['qbittorrent_url', 'string', 'http://admin:adminadmin@localhost:8080/', 'private'],
    ['qbittorrent_seedtime', 'number', '0', 'private'],
    ['transmission_uri', 'string', 'http://localhost:9091/transmission/rpc', 'private'],
    ['transmission_seedtime', 'number', '0', 'private'],
    ['115_temp_dir', 'string', '', 'private'],
    ['115_open_temp_dir', 'string', '', 'private'],
  ]),
]
