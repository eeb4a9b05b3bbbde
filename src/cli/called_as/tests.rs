use super::*;

#[test]
fn name_of_the_link_selects_the_mode() {
    let called = |program: &str| CalledAs::new(Some(OsStr::new(program)));
    assert_eq!(called("/usr/local/bin/policy-sync"), CalledAs::Itself);
    assert_eq!(called("kubectl-policy_sync"), CalledAs::Plugin);
    assert_eq!(called("/opt/bin/kubectl_complete-policy_sync"), CalledAs::PluginCompletion);
    for other in ["", "/", "kubectl", "policy-sync-0.1.0"] {
        assert_eq!(called(other), CalledAs::Itself, "{other}");
    }
    assert_eq!(CalledAs::new(None), CalledAs::Itself);
}

/// The help of each command and of all its subcommands.
fn helps(mut command: Command) -> Vec<String> {
    command.build();
    fn below(command: &mut Command, helps: &mut Vec<String>) {
        helps.push(command.render_long_help().to_string());
        command.get_subcommands_mut().for_each(|command| below(command, helps));
    }
    let mut helps = Vec::new();
    below(&mut command, &mut helps);
    helps
}

#[test]
fn help_uses_the_name_that_the_user_typed() {
    let (own, plugin) = (helps(CalledAs::Itself.command()), helps(CalledAs::Plugin.command()));
    assert!(own.len() > 5 && own.len() == plugin.len());
    for (own, plugin) in own.iter().zip(&plugin) {
        assert!(own.contains("Usage: policy-sync"), "{own}");
        assert!(plugin.contains("Usage: kubectl policy-sync"), "{plugin}");
        // Examples call the program by its typed name.
        let called = |text: &str, name: &str| text.matches(&format!("  {name} ")).count();
        assert_eq!(called(own, "policy-sync"), called(plugin, "kubectl policy-sync"));
        assert_eq!(called(plugin, "policy-sync"), 0, "{plugin}");
    }
}
