/** Every setting with its group, type and default, and the effects of settings. */
import t from 'tap'
import { flagNumbers, groupNumbers } from '../../../protocols/http/compat/setting-object.js'
import { cloud115Type, open115Type } from '../../../drivers/115/index.js'
import { Served, serve } from './served.js'

interface Row {
  readonly key: string
  readonly value: string
  readonly help: string
  readonly type: string
  readonly options: string
  readonly group: number
  readonly flag: number
  readonly index: number
}

/**
 * Key, type, default and flag (p: private, r: read-only, else public), by group, in the order of display. `…`: the text
 * is our own. Options stand behind the type.
 */
const table: Readonly<Record<number, string>> = {
  1: `version string … r
    site_title string …
    announcement text …
    pagination_type select:all,pagination,load_more,auto_load_more all
    default_page_size number 30
    allow_indexed bool false
    allow_mounted bool true
    robots_txt text …`,
  2: `logo text …
    favicon string …
    main_color string #1890ff
    home_icon string …
    share_icon string …
    home_container select:max_980px,hope_container max_980px
    settings_layout select:list,responsive list
    hide_storage_details bool true p
    hide_storage_details_in_manage_page bool true p
    show_disk_usage_in_plain_text bool false`,
  3: `text_types text txt,htm,html,xml,java,properties,sql,js,md,json,conf,ini,vue,php,py,bat,gitignore,yml,go,sh,c,cpp,h,hpp,tsx,vtt,srt,ass,rs,lrc,strm p
    audio_types text mp3,flac,ogg,m4a,wav,opus,wma p
    video_types text mp4,mkv,avi,mov,rmvb,webm,flv,m3u8 p
    image_types text jpg,tiff,jpeg,png,gif,bmp,svg,ico,swf,webp,avif p
    proxy_types text m3u8,url p
    proxy_ignore_headers text authorization,referer p
    external_previews text {}
    iframe_previews text {}
    audio_cover string …
    audio_autoplay bool true
    video_autoplay bool true
    preview_download_by_default bool false
    preview_archives_by_default bool true
    share_preview_download_by_default bool true
    share_preview_archives_by_default bool false
    readme_autorender bool true
    filter_readme_scripts bool true
    non_efs_zip_encoding string IBM437`,
  4: `hide_files text /\\/README.md/i
    package_download bool true
    customize_head text … p
    customize_body text … p
    link_expiration number 0 p
    sign_all bool true p
    privacy_regs text … p
    ocr_api string …
    filename_char_mapping text {"/":"|"}
    forward_direct_link_params bool false
    ignore_direct_link_params string sign,openlist_ts,raw
    webauthn_login_enabled bool false
    share_preview bool false
    share_archive_preview bool false
    share_force_proxy bool true p
    filebrowser_share_links bool false p
    share_summary_content text …
    handle_hook_after_writing bool false p
    handle_hook_rate_limit number 0 p
    ignore_system_files bool false p`,
  0: `token string … p
    index_progress text {} p
    first_run_done bool false p`,
  6: `search_index select:database,database_non_full_text,bleve,meilisearch,none none
    auto_update_index bool false
    ignore_paths text … p
    max_index_depth number 20 p`,
  7: `sso_login_enabled bool false
    sso_login_platform select:Casdoor,Github,Microsoft,Google,Dingtalk,OIDC …
    sso_client_id string … p
    sso_client_secret string … p
    sso_oidc_username_key string name p
    sso_organization_name string … p
    sso_application_name string … p
    sso_endpoint_name string … p
    sso_jwt_public_key string … p
    sso_extra_scopes string … p
    sso_auto_register bool false p
    sso_default_dir string / p
    sso_default_permission number 0 p
    sso_compatibility_mode bool false
    sso_scopes_groups_claim string groups p
    sso_required_groups text … p
    sso_admin_groups text … p
    sso_group_map text … p
    sso_update_on_login bool true p
    sso_link_by_email bool false p
    sso_logout_provider bool false
    sso_login_text string …
    sso_only bool false
    sso_recheck_days number 7 p`,
  8: `ldap_login_enabled bool false
    ldap_server string … p
    ldap_skip_tls_verify bool false p
    ldap_manager_dn string … p
    ldap_manager_password string … p
    ldap_user_search_base string … p
    ldap_user_search_filter string (uid=%s) p
    ldap_default_dir string / p
    ldap_default_permission number 0 p
    ldap_login_tips string …
    ldap_start_tls bool false p
    ldap_ca_file string … p
    ldap_username_attribute string uid p
    ldap_group_search_base string … p
    ldap_nested_groups bool false p
    ldap_group_map text … p
    ldap_required_group_dn string … p
    ldap_admin_group_dn string … p`,
  9: `s3_access_key_id string … p
    s3_secret_access_key string … p
    s3_buckets string [] p`,
  10: `ftp_public_host string 127.0.0.1 p
    ftp_pasv_port_map text … p
    ftp_mandatory_tls bool false p
    ftp_implicit_tls bool false p
    ftp_tls_private_key_path string … p
    ftp_tls_public_cert_path string … p
    sftp_disable_password_login bool false p
    sftp_keep_partial_uploads bool false p`,
  11: `offline_download_task_threads_num number 5 p
    offline_download_transfer_task_threads_num number 5 p
    upload_task_threads_num number 5 p
    copy_task_threads_num number 5 p
    move_task_threads_num number 5 p
    decompress_download_task_threads_num number 5 p
    decompress_upload_task_threads_num number 5 p
    max_client_download_speed number -1 p
    max_client_upload_speed number -1 p
    max_server_download_speed number -1 p
    max_server_upload_speed number -1 p
    multipart_enabled bool true
    multipart_chunk_size number 10
    finished_tasks_days number 7 p
    transfer_files_at_once number 16 p
    spool_size_limit number -1 p
    egress_networks text … p
    egress_proxy string … p
    offline_download_size_limit number 102400 p
    offline_download_temp_dir string … p
    metrics_networks text … p`,
  5: `aria2_uri string http://localhost:6800/jsonrpc p
    aria2_secret string … p
    qbittorrent_url string http://admin:adminadmin@localhost:8080/ p
    qbittorrent_seedtime number 0 p
    transmission_uri string http://localhost:9091/transmission/rpc p
    transmission_seedtime number 0 p
    115_temp_dir string … p
    115_open_temp_dir string … p`,
  12: `audit_enabled bool true p
    audit_days number 90 p
    audit_max_mib number 1024 p
    audit_reads bool false p
    audit_details bool false p
    audit_strict bool false p
    audit_log string … p`,
}

interface Expected {
  readonly group: number
  readonly key: string
  readonly type: string
  readonly options: string
  readonly value: string
  readonly flag: number
}

const expected: readonly Expected[] = Object.entries(table).flatMap(([group, lines]) =>
  lines.split('\n').map((line) => {
    const [key = '', type = '', value = '', flag = ''] = line.trim().split(' ')
    const [kind = '', options = ''] = type.split(':')
    const flags: Readonly<Record<string, number>> = { '': 0, p: 1, r: 2 }
    return { group: Number(group), key, type: kind, options, value, flag: flags[flag] ?? -1 }
  }),
)

/** Tools that download by themselves, each of which has a setting. */
const tools = [cloud115Type, open115Type]

const withoutBlanks = (text: string): string => text.replaceAll(' ', '')

void t.test('every setting has its group, flag, type, options and default', async (t) => {
  const admin = await serve(t, '', tools)
  const rows = (await admin.get('/api/admin/setting/list')).data as Row[]
  t.strictSame(rows.map(({ key }) => key).sort(), expected.map(({ key }) => key).sort())
  for (const { value, ...facts } of expected) {
    const row = rows.find(({ key }) => key === facts.key)
    t.match(row, facts, facts.key)
    const fields = ['flag', 'group', 'help', 'in_force', 'index', 'key', 'options', 'type', 'value']
    t.strictSame(Object.keys(row ?? {}).sort(), fields)
    if (value !== '…') t.equal(withoutBlanks(row?.value ?? ''), value, facts.key)
  }
  for (const group of Object.values(groupNumbers)) {
    const own = (await admin.get(`/api/admin/setting/list?group=${group}`)).data as Row[]
    t.strictSame(
      own.map(({ key }) => key),
      expected.filter((each) => each.group === group).map(({ key }) => key),
      `the order of group ${group}`,
    )
    t.ok(
      own.every(({ index }, at) => at === 0 || index > (own[at - 1]?.index ?? 0)),
      'by index',
    )
  }
  t.match(rows.find(({ key }) => key === 'version')?.value, /^v\d+\.\d+\.\d+/)
  t.equal(rows.find(({ key }) => key === 'robots_txt')?.value, 'User-agent: *\nAllow: /')
  t.equal(rows.find(({ key }) => key === 'privacy_regs')?.value.split('\n').length, 3)
})

void t.test('public settings are readable without a token, and no others', async (t) => {
  const admin = await serve(t)
  const { data } = await new Served(admin.url, admin.gateway).get('/api/public/settings')
  const shown = expected.filter(({ flag }) => flag === flagNumbers.public || flag === flagNumbers.readonly)
  t.strictSame(Object.keys(data as object).sort(), shown.map(({ key }) => key).sort())
  t.ok(Object.values(data as object).every((value) => typeof value === 'string'))
})

void t.test('a value must fit the type of its setting, and every type may be empty', async (t) => {
  const admin = await serve(t, '', tools)
  const save = (key: string, value: unknown) => admin.post('/api/admin/setting/save', [{ key, value }])
  for (const { key, type, options } of expected) {
    if (key === 'version' || key === 'token') continue
    const wrong = { number: '1x', bool: 'yes', select: 'none of them' }[type]
    if (wrong !== undefined) {
      t.match(await save(key, wrong), { code: 400, message: new RegExp(`^setting \\[${key}\\] must be `) }, key)
    }
    for (const option of options === '' ? [] : options.split(',')) {
      // Clients offer these names of search engines, which this server does not have.
      const isAbsent = option === 'bleve' || option === 'meilisearch'
      t.match(await save(key, option), { code: isAbsent ? 500 : 200 }, `${key} ${option}`)
    }
    t.match(await save(key, ''), { code: 200 }, key)
  }
  t.match(await save('site_title', { text: 'x' }), { code: 400 })
  t.match(await save('sign_all', false), { code: 200 })
  t.match(await admin.get('/api/admin/setting/get?key=sign_all'), { data: { value: 'false' } })
})

void t.test('new links expire after link_expiration hours', async (t) => {
  const admin = await serve(t)
  await admin.put('/file', 'x')
  const sign = async () => ((await admin.post('/api/fs/get', { path: '/file' })).data as { sign: string }).sign
  t.match(await sign(), /:0$/)
  await admin.gateway.settings.set(new Map([['link_expiration', '2']]))
  const expiry = Number((await sign()).split(':')[1])
  const hours = (expiry - Date.now() / 1000) / 3600
  t.ok(hours > 1.9 && hours <= 2, `${hours}`)
  t.equal((await fetch(`${admin.url}/d/file?sign=${await sign()}`)).status, 200)
})

void t.test('robots_txt and favicon are served to crawlers and browsers', async (t) => {
  const admin = await serve(t)
  const { gateway } = admin
  await gateway.settings.set(new Map([['robots_txt', 'User-agent: nobody']]))
  t.equal(await (await fetch(`${admin.url}/robots.txt`)).text(), 'User-agent: nobody')
  await gateway.settings.set(new Map([['favicon', '']]))
  t.equal((await fetch(`${admin.url}/favicon.ico`)).status, 404)
})
