/** The words of the page that says how the console becomes an app. */
import type { Language } from "./index.ts";

const en = {
  title: "Install as an app",
  why: "The console then has its own icon and window, and opens without a connection.",
  installed: "The console runs as an app on this device.",
  install: "Install",
  plain: "This page came without encryption, so this browser can't install it. Start the hub with `baton up --tls`, and open the links that it prints.",
  untrusted: "This device doesn't trust the hub's certificate yet.",
  untrusted_link: "Let it trust the hub",
  iphone: "In Safari: Share, then Add to Home Screen.",
  mac_safari: "In Safari: File, then Add to Dock.",
  firefox: "Firefox on a computer installs no apps; Chrome, Edge and Safari do. Opening without a connection works here too.",
  menu: "Open the browser's menu, and choose Install or Add to Home screen.",
  none: "This browser installs no apps.",
};

const zh: typeof en = {
  title: "安装成应用",
  why: "控制台会有自己的图标和窗口，没有连接也能打开。",
  installed: "控制台在这台设备上作为应用运行。",
  install: "安装",
  plain: "这个页面没有加密，浏览器不能安装它。用 `baton up --tls` 启动中枢，再打开它显示的链接。",
  untrusted: "这台设备还不信任中枢的证书。",
  untrusted_link: "让它信任中枢",
  iphone: "在 Safari 中：共享，然后“添加到主屏幕”。",
  mac_safari: "在 Safari 中：文件，然后“添加到程序坞”。",
  firefox: "电脑上的 Firefox 不能安装应用；Chrome、Edge 和 Safari 可以。没有连接时，在这里也能打开。",
  menu: "打开浏览器的菜单，选择“安装”或“添加到主屏幕”。",
  none: "这个浏览器不能安装应用。",
};

export const installWords = (language: Language): typeof en => (language === "zh" ? zh : en);
