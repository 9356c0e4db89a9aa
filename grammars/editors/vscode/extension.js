// Starts `spacedsl lsp` and lets it serve the open `.space` files.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;
let watcher;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("spacedsl").get("command");
  client = new LanguageClient(
    "spacedsl",
    "spacedsl",
    { command, args },
    {
      documentSelector: [{ scheme: "file", language: "space" }],
      // Files that are included, and change without being open.
      synchronize: { fileEvents: watcher },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `Cannot start \`${[command, ...args].join(" ")}\`: ${error.message}. ` +
        "Install it with `pip install 'spacedsl[lsp]'`, or say where it is in the setting spacedsl.command.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  watcher = vscode.workspace.createFileSystemWatcher("**/*.space");
  context.subscriptions.push(
    watcher,
    vscode.commands.registerCommand("spacedsl.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) =>
      change.affectsConfiguration("spacedsl.command") ? restart() : undefined,
    ),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
